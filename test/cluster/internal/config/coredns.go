package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
)

//go:embed coredns.yaml
var corednsTemplate string

// CoreDNS renders the manifests of the cluster's DNS: one pod per node, and each node asks its own first, so that a
// crash of one node does not disturb the names of the others.
func (c Cluster) CoreDNS() ([]byte, error) {
	t, err := template.New("coredns").Option("missingkey=error").Parse(corednsTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the manifests of CoreDNS: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"Address": dnsService, "Image": CoreDNSImage, "Replicas": c.Nodes})
	if err != nil {
		return nil, fmt.Errorf("render the manifests of CoreDNS: %w", err)
	}
	return out.Bytes(), nil
}
