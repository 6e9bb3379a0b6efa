package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const crd = `
spec:
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: the spec
            properties:
              size: {type: integer, description: the size}
              template:
                description: the template
                properties:
                  description: {type: string, description: a property of that name}
                  list:
                    description: a list
                    items: {type: string, description: an item}
                  map:
                    additionalProperties: {anyOf: [{type: string, description: one way}]}
`

func TestStripRemovesDescriptionsBelowTemplateOnly(t *testing.T) {
	out, err := Strip([]byte(crd))
	require.NoError(t, err)

	want := `
spec:
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: the spec
            properties:
              size: {type: integer, description: the size}
              template:
                description: the template
                properties:
                  description: {type: string}
                  list: {items: {type: string}}
                  map: {additionalProperties: {anyOf: [{type: string}]}}
`
	require.YAMLEq(t, want, string(out))

	again, err := Strip(out)
	require.NoError(t, err)
	require.Equal(t, string(out), string(again), "a second run must change nothing")
}

func TestStripRefusesWhatIsNoCRD(t *testing.T) {
	_, err := Strip([]byte("kind: ConfigMap"))
	require.ErrorContains(t, err, "no spec.versions")
}

// The limit of kubectl apply is 262,144 bytes for the annotation that holds
// the last applied object; 200 KB leaves room for labels that a chart adds.
func TestGeneratedCRDsFitClientSideApply(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 2, "one CRD for each kind")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			asJSON, err := yaml.YAMLToJSON(data)
			require.NoError(t, err)
			require.Less(t, len(asJSON), 200_000)

			var doc map[string]any
			require.NoError(t, json.Unmarshal(asJSON, &doc))
			versions, _, err := unstructured.NestedSlice(doc, "spec", "versions")
			require.NoError(t, err)
			schema, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
			require.NoError(t, err)
			spec := property(schema, "spec")
			require.NotEmpty(t, property(spec, "template")["description"])
			pod := property(property(spec, "template"), "spec")
			require.NotContains(t, pod, "description")
			require.Contains(t, property(property(spec, "template"), "metadata")["properties"], "labels",
				"labels of a template must not be pruned")
		})
	}
}
