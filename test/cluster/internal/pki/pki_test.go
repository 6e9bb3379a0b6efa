package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := New(filepath.Join(t.TempDir(), "pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// handshake connects a client to a server that demands a client certificate, as the components do.
func handshake(t *testing.T, a *Authority, server, client, host string) error {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(a.Dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	load := func(name string) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(filepath.Join(a.Dir, name+".crt"), filepath.Join(a.Dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	there, here := connection(t)
	s := tls.Server(there, &tls.Config{Certificates: load(server), ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
	c := tls.Client(here, &tls.Config{Certificates: load(client), RootCAs: roots, ServerName: host})
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	// The client ends first: what the server thinks of its certificate shows at the server.
	return errors.Join(c.Handshake(), here.CloseWrite(), <-done)
}

// connection is a real one: the two sides may write at once, as TLS does when it refuses.
func connection(t *testing.T) (there net.Conn, here *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = there.Close()
		_ = c.Close()
	})
	return there, c.(*net.TCPConn)
}

func TestServerAndClientTrustEachOther(t *testing.T) {
	a := authority(t)
	if err := a.Issue("server", Subject{CommonName: "kube-apiserver", Hosts: []string{"kubernetes.default", "198.18.0.250"}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Issue("client", Subject{CommonName: "admin", Organizations: []string{"system:masters"}}); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"kubernetes.default", "198.18.0.250"} {
		if err := handshake(t, a, "server", "client", host); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	if err := handshake(t, a, "server", "client", "other"); err == nil {
		t.Error("a name that the certificate does not hold was accepted")
	}
	if err := handshake(t, a, "client", "client", "kubernetes.default"); err == nil {
		t.Error("a client's certificate was accepted from a server")
	}
	if err := handshake(t, a, "server", "server", "kubernetes.default"); err == nil {
		t.Error("a server's certificate was accepted from a client")
	}
}

func TestSubjectBecomesUserAndGroups(t *testing.T) {
	a := authority(t)
	if err := a.Issue("kubelet", Subject{CommonName: "system:node:node1", Organizations: []string{"system:nodes"}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(a.Dir, "kubelet.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if s := cert.Subject.String(); s != "CN=system:node:node1,O=system:nodes" {
		t.Errorf("subject %q", s)
	}
	if !cert.NotBefore.Before(time.Now()) || cert.NotAfter.Before(time.Now().Add(300*24*time.Hour)) {
		t.Errorf("valid from %s to %s", cert.NotBefore, cert.NotAfter)
	}
}

func TestKubeconfigCarriesItsCredentials(t *testing.T) {
	a := authority(t)
	if err := a.Kubeconfig("admin", "https://127.0.0.1:1234", "demo", Subject{CommonName: "admin"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(a.Dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Name    string
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
		Current string `json:"current-context"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if c := config.Clusters[0]; c.Cluster.Server != "https://127.0.0.1:1234" || config.Current != "demo" || c.Name != "demo" {
		t.Errorf("cluster %+v, current %q", c, config.Current)
	}
	if _, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key); err != nil {
		t.Errorf("the user's pair: %v", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(config.Clusters[0].Cluster.CA) {
		t.Error("no CA in it")
	}
	info, err := os.Stat(filepath.Join(a.Dir, "admin.kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: others could read the key", info.Mode(), err)
	}
}

func TestKeyPairSignsTokens(t *testing.T) {
	a := authority(t)
	if err := a.KeyPair("sa"); err != nil {
		t.Fatal(err)
	}
	private, _ := os.ReadFile(filepath.Join(a.Dir, "sa.key"))
	public, _ := os.ReadFile(filepath.Join(a.Dir, "sa.pub"))
	b, _ := pem.Decode(private)
	if _, err := x509.ParsePKCS8PrivateKey(b.Bytes); err != nil {
		t.Error(err)
	}
	b, _ = pem.Decode(public)
	if _, err := x509.ParsePKIXPublicKey(b.Bytes); err != nil {
		t.Error(err)
	}
}
