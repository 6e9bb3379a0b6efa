package main

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Strip takes a CustomResourceDefinition as YAML and returns it without the
// descriptions below spec.template of its objects, and with all others.
func Strip(crd []byte) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(crd, &doc); err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	versions, found, err := unstructured.NestedSlice(doc, "spec", "versions")
	if err != nil || !found {
		return nil, errors.New("not a CustomResourceDefinition: no spec.versions")
	}
	for _, version := range versions {
		schema, _, err := unstructured.NestedMap(version.(map[string]any), "schema", "openAPIV3Schema")
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		template := property(property(schema, "spec"), "template")
		stripBelow(template)
		if err := unstructured.SetNestedMap(version.(map[string]any), schema, "schema", "openAPIV3Schema"); err != nil {
			return nil, fmt.Errorf("write schema: %w", err)
		}
	}
	if err := unstructured.SetNestedSlice(doc, versions, "spec", "versions"); err != nil {
		return nil, fmt.Errorf("write versions: %w", err)
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return append([]byte("---\n"), out...), nil
}

// property returns the schema of one property, or nil.
func property(schema map[string]any, name string) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	child, _ := properties[name].(map[string]any)
	return child
}

// stripBelow removes the descriptions of all schemas below this one and keeps
// its own. It follows the structure of a schema, so that a property that is
// itself named "description" stays.
func stripBelow(schema map[string]any) {
	for _, child := range children(schema) {
		delete(child, "description")
		stripBelow(child)
	}
}

// children returns the schemas directly below one.
func children(schema map[string]any) []map[string]any {
	var out []map[string]any
	add := func(v any) {
		if child, ok := v.(map[string]any); ok {
			out = append(out, child)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for _, child := range properties {
			add(child)
		}
	}
	add(schema["items"])
	add(schema["additionalProperties"])
	add(schema["not"])
	for _, union := range []string{"allOf", "anyOf", "oneOf"} {
		if members, ok := schema[union].([]any); ok {
			for _, child := range members {
				add(child)
			}
		}
	}
	return out
}
