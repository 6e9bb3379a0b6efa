package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// api reads the few things this tool must know from the API server.
type api struct {
	base   string
	client http.Client
}

func (c *Cluster) api(s settings) (*api, error) {
	dir := filepath.Join(c.dir, "pki")
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's CA holds no certificate")
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "admin.crt"), filepath.Join(dir, "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	return &api{
		base: fmt.Sprintf("https://127.0.0.1:%d", s.APIPort),
		client: http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
		}},
	}, nil
}

func (a *api) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

func (a *api) ready(ctx context.Context) error { return a.get(ctx, "/readyz", nil) }

// node is what the API server knows of a node.
type node struct {
	ready  string // status of the Ready condition
	bootID string // of the boot that its kubelet last reported
}

func (a *api) nodes(ctx context.Context) (map[string]node, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				NodeInfo   struct{ BootID string }
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := a.get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	nodes := map[string]node{}
	for _, item := range list.Items {
		n := node{ready: "Unknown", bootID: item.Status.NodeInfo.BootID}
		for _, c := range item.Status.Conditions {
			if c.Type == "Ready" {
				n.ready = c.Status
			}
		}
		nodes[item.Metadata.Name] = n
	}
	return nodes, nil
}

// dns fails unless every node's CoreDNS is available.
func (a *api) dns(ctx context.Context, want int) error {
	var d struct {
		Status struct{ AvailableReplicas int }
	}
	if err := a.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/coredns", &d); err != nil {
		return err
	}
	if d.Status.AvailableReplicas < want {
		return fmt.Errorf("%d of %d CoreDNS pods are available", d.Status.AvailableReplicas, want)
	}
	return nil
}

// defaultAccount fails until pods can be made in the default namespace.
func (a *api) defaultAccount(ctx context.Context) error {
	return a.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
}
