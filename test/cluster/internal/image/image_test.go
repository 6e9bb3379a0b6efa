package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// program builds a tiny program the way the images' programs are built.
func program(t *testing.T, name string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"hello\") }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, source)
	cmd.Env = append(os.Environ(), append([]string{"CGO_ENABLED=0", "GOOS=linux"}, env...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return out
}

func untar(t *testing.T, r io.Reader) (headers map[string]*tar.Header, contents map[string][]byte) {
	t.Helper()
	headers, contents = map[string]*tar.Header{}, map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
		if contents[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	bin := program(t, "hello")
	o := Options{Ref: "localhost/workpull/hello:dev", Binaries: []string{bin}, Labels: map[string]string{"b": "2", "a": "1", "c": "3"}}
	var first bytes.Buffer
	if err := WriteTo(&first, o); err != nil {
		t.Fatal(err)
	}
	// A copy at another path with another time is the same input.
	data, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	o.Binaries = []string{filepath.Join(t.TempDir(), "hello")}
	if err := os.WriteFile(o.Binaries[0], data, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		var again bytes.Buffer
		if err := WriteTo(&again, o); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), again.Bytes()) {
			t.Fatal("the same input gave other bytes")
		}
	}
	o.Labels["a"] = "other"
	var other bytes.Buffer
	if err := WriteTo(&other, o); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first.Bytes(), other.Bytes()) {
		t.Fatal("another label gave the same bytes")
	}
}

// The archive is read back in both of its forms by the readers that others use.
func TestArchiveIsOCILayoutAndDockerArchive(t *testing.T) {
	out := filepath.Join(t.TempDir(), "sub", "hello.tar")
	o := Options{
		Ref: "localhost/workpull/hello:dev", Binaries: []string{program(t, "hello"), program(t, "second")},
		Entrypoint: []string{"/second", "serve"}, Labels: map[string]string{"k": "v"},
	}
	if err := Write(o, out); err != nil {
		t.Fatal(err)
	}
	docker, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, contents := untar(t, f)
	dir := t.TempDir()
	for name, data := range contents {
		if strings.HasSuffix(name, "/") {
			continue
		}
		if hex, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && fmt.Sprintf("%x", sha256.Sum256(data)) != hex {
			t.Errorf("blob %s holds something else", hex)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != o.Ref {
		t.Errorf("containerd would call it %q", got)
	}
	oci, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	for form, img := range map[string]v1.Image{"docker": docker, "oci": oci} {
		// The fast way only: this reader of layouts takes every layer for gzip, whatever its media type says.
		if err := validate.Image(img, validate.Fast); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != "65532:65532" || strings.Join(c.Entrypoint, " ") != "/second serve" || c.Labels["k"] != "v" || config.OS != "linux" {
			t.Errorf("%s: configuration %+v", form, config)
		}
	}
}

func TestLayerHoldsWhatAProgramNeeds(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, []byte("certificates"), 0o644); err != nil {
		t.Fatal(err)
	}
	img, err := build(Options{Ref: "localhost/x:1", Binaries: []string{program(t, "hello")}, CABundle: bundle})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	headers, contents := untar(t, r)
	for name, mode := range map[string]int64{"tmp/": 0o1777, "hello": 0o755, "etc/passwd": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644} {
		if h := headers[name]; h == nil || h.Mode != mode || h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s: %+v, want mode %o", name, h, mode)
		}
	}
	if !strings.Contains(string(contents["etc/passwd"]), "nonroot:x:65532:65532:") {
		t.Errorf("passwd: %s", contents["etc/passwd"])
	}
	if string(contents["etc/ssl/certs/ca-certificates.crt"]) != "certificates" {
		t.Error("the CA bundle is not the one given")
	}
}

func TestArchitectureIsTheBinarys(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		var out bytes.Buffer
		if err := WriteTo(&out, Options{Ref: "localhost/x:1", Binaries: []string{program(t, "hello", "GOARCH="+arch)}}); err != nil {
			t.Fatal(err)
		}
		_, contents := untar(t, &out)
		var index v1.IndexManifest
		if err := json.Unmarshal(contents["index.json"], &index); err != nil {
			t.Fatal(err)
		}
		if got := index.Manifests[0].Platform.Architecture; got != arch {
			t.Errorf("architecture %s, want %s", got, arch)
		}
	}
}

func TestRefusesWhatWouldNotRun(t *testing.T) {
	good := program(t, "hello")
	text := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"no binary":           {Options{Ref: "localhost/x:1"}, "no binary"},
		"no tag":              {Options{Ref: "localhost/x", Binaries: []string{good}}, "image reference"},
		"a script":            {Options{Ref: "localhost/x:1", Binaries: []string{text}}, "not a Linux program"},
		"linked to libc":      {Options{Ref: "localhost/x:1", Binaries: []string{"/bin/ls"}}, "not static"},
		"absent":              {Options{Ref: "localhost/x:1", Binaries: []string{good + "-absent"}}, "no such file"},
		"two of one name":     {Options{Ref: "localhost/x:1", Binaries: []string{good, good}}, "two files want to be /hello"},
		"unknown entrypoint":  {Options{Ref: "localhost/x:1", Binaries: []string{good}, Entrypoint: []string{"/other"}}, "not in the image"},
		"mixed architectures": {Options{Ref: "localhost/x:1", Binaries: []string{good, program(t, "other", "GOARCH=riscv64")}}, "unknown architecture"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.tar")
			if err := Write(c.o, out); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an archive was left all the same")
			}
		})
	}
}
