package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/workpull/operator/test/cluster/internal/pki"
)

// Certificates issues everything that the configuration names, and the administrator's kubeconfig, which reaches the
// API server at hostPort on the machine's own loopback.
func (c Cluster) Certificates(hostPort int, now time.Time) error {
	a, err := pki.New(filepath.Join(c.Dir, "pki"), now)
	if err != nil {
		return err
	}
	inBox, onLAN := fmt.Sprintf("https://127.0.0.1:%d", apiPort), "https://"+APIServer
	masters, nodes := []string{"system:masters"}, []string{"system:nodes"}
	type kubeconfig struct {
		name, server string
		subject      pki.Subject
	}
	kubeconfigs := []kubeconfig{
		{"admin", fmt.Sprintf("https://127.0.0.1:%d", hostPort), pki.Subject{CommonName: "admin", Organizations: masters}},
		{"controller-manager", inBox, pki.Subject{CommonName: "system:kube-controller-manager"}},
		{"scheduler", inBox, pki.Subject{CommonName: "system:kube-scheduler"}},
		{"kube-proxy", onLAN, pki.Subject{CommonName: "system:kube-proxy"}},
	}
	certificates := map[string]pki.Subject{
		"apiserver": {CommonName: "kube-apiserver", Hosts: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"127.0.0.1", controlAddress, apiService,
		}},
		"apiserver-kubelet-client": {CommonName: "kube-apiserver-kubelet-client", Organizations: masters},
		"front-proxy-client":       {CommonName: "front-proxy-client"},
	}
	for n := 1; n <= c.Nodes; n++ {
		node := NodeName(n)
		user := pki.Subject{CommonName: "system:node:" + node, Organizations: nodes}
		kubeconfigs = append(kubeconfigs, kubeconfig{"kubelet-" + node, onLAN, user})
		certificates["kubelet-server-"+node] = pki.Subject{
			CommonName: user.CommonName, Organizations: nodes, Hosts: []string{node, nodeAddress(n), "127.0.0.1"},
		}
	}
	for name, s := range certificates {
		if err := a.Issue(name, s); err != nil {
			return err
		}
	}
	for _, k := range kubeconfigs {
		if err := a.Kubeconfig(k.name, k.server, c.Name, k.subject); err != nil {
			return err
		}
	}
	return a.KeyPair("sa")
}

// AdminKubeconfig is the path of the administrator's kubeconfig.
func (c Cluster) AdminKubeconfig() string { return c.pki("admin.kubeconfig") }
