// Package pki makes the certificates and kubeconfigs of a test cluster: one CA, P-256 keys, a year's validity.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// validity is far beyond any test cluster's life.
const validity = 365 * 24 * time.Hour

// Authority signs the cluster's certificates and writes them to its folder.
type Authority struct {
	Dir string
	now time.Time

	cert    *x509.Certificate
	certPEM []byte
	key     crypto.Signer
}

// New makes a certificate authority and writes ca.crt and ca.key to dir.
func New(dir string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	a := &Authority{Dir: dir, now: now}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "workpull-test-cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	a.key = key
	if a.certPEM, a.cert, err = a.sign(template, template, key.Public()); err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	if err := a.write("ca.crt", a.certPEM); err != nil {
		return nil, err
	}
	return a, a.writeKey("ca.key", key)
}

// Subject is what a certificate is for. With Hosts it is a server's (names and addresses), without a client's.
type Subject struct {
	CommonName    string
	Organizations []string
	Hosts         []string
}

// Issue writes NAME.crt and NAME.key.
func (a *Authority) Issue(name string, s Subject) error {
	_, _, err := a.issue(name, s)
	return err
}

func (a *Authority) issue(name string, s Subject) (certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if certPEM, _, err = a.sign(template, a.cert, key.Public()); err != nil {
		return nil, nil, fmt.Errorf("issue certificate %s: %w", name, err)
	}
	if keyPEM, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	if err := a.write(name+".crt", certPEM); err != nil {
		return nil, nil, err
	}
	return certPEM, keyPEM, a.write(name+".key", keyPEM)
}

// Kubeconfig issues a client certificate and writes NAME.kubeconfig, which presents it to server.
func (a *Authority) Kubeconfig(name, server, cluster string, s Subject) error {
	certPEM, keyPEM, err := a.issue(name, s)
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []any{map[string]any{"name": cluster, "cluster": map[string]any{
			"server": server, "certificate-authority-data": a.certPEM,
		}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{
			"client-certificate-data": certPEM, "client-key-data": keyPEM,
		}}},
		"contexts":        []any{map[string]any{"name": cluster, "context": map[string]any{"cluster": cluster, "user": name}}},
		"current-context": cluster,
	})
	if err != nil {
		return fmt.Errorf("render kubeconfig %s: %w", name, err)
	}
	return a.write(name+".kubeconfig", data)
}

// KeyPair writes NAME.key and NAME.pub, the pair that signs and checks ServiceAccount tokens.
func (a *Authority) KeyPair(name string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode public key %s: %w", name, err)
	}
	if err := a.write(name+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})); err != nil {
		return err
	}
	return a.writeKey(name+".key", key)
}

func (a *Authority) sign(template, parent *x509.Certificate, public crypto.PublicKey) ([]byte, *x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = a.now.Add(-time.Hour) // clocks that were set back
	template.NotAfter = a.now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse what was signed: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert, nil
}

func (a *Authority) writeKey(file string, key crypto.Signer) error {
	data, err := encodeKey(key)
	if err != nil {
		return err
	}
	return a.write(file, data)
}

func (a *Authority) write(file string, data []byte) error {
	if err := os.WriteFile(filepath.Join(a.Dir, file), data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// encodeKey uses PKCS#8, which every component reads.
func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
