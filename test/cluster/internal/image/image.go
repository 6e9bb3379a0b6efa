// Package image writes container images without a daemon: a few static binaries FROM scratch, as one archive that is
// an OCI image layout and a docker-archive at once, so that containerd, podman and docker all take it. The same input
// gives the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is whom the containers run as unless the pod says otherwise: numeric, so that runAsNonRoot can be checked.
const User = "65532:65532"

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

// Options say what an image holds.
type Options struct {
	Ref        string            // with registry and tag, as localhost/workpull/operator:dev
	Binaries   []string          // each becomes /NAME
	Entrypoint []string          // the first binary if empty
	Labels     map[string]string // of the image's configuration
	CABundle   string            // file that becomes /etc/ssl/certs/ca-certificates.crt; none if empty
}

// Write writes the archive to out, whole or not at all.
func Write(o Options, out string) error {
	var archive bytes.Buffer
	if err := WriteTo(&archive, o); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", out, err)
	}
	part := fmt.Sprintf("%s.part-%d", out, os.Getpid())
	defer os.Remove(part)
	if err := os.WriteFile(part, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image %s: %w", o.Ref, err)
	}
	if err := os.Rename(part, out); err != nil {
		return fmt.Errorf("put image %s in place: %w", o.Ref, err)
	}
	return nil
}

// WriteTo writes the archive to w.
func WriteTo(w io.Writer, o Options) error {
	ref, err := name.NewTag(o.Ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image reference %q: %w", o.Ref, err)
	}
	img, err := build(o)
	if err != nil {
		return fmt.Errorf("image %s: %w", o.Ref, err)
	}
	if err := writeArchive(w, ref, img); err != nil {
		return fmt.Errorf("write image %s: %w", o.Ref, err)
	}
	return nil
}

func build(o Options) (v1.Image, error) {
	if len(o.Binaries) == 0 {
		return nil, errors.New("no binary given")
	}
	arch := ""
	files := []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n")},
		{path: "tmp/", mode: 0o1777},
	}
	for _, b := range o.Binaries {
		data, err := os.ReadFile(b)
		if err != nil {
			return nil, fmt.Errorf("read binary: %w", err)
		}
		a, err := architecture(data)
		if err != nil {
			return nil, fmt.Errorf("binary %s: %w", b, err)
		}
		if arch != "" && a != arch {
			return nil, fmt.Errorf("binary %s is for %s, the others for %s", b, a, arch)
		}
		arch = a
		files = append(files, file{path: filepath.Base(b), mode: 0o755, data: data})
	}
	if o.CABundle != "" {
		data, err := os.ReadFile(o.CABundle)
		if err != nil {
			return nil, fmt.Errorf("read CA bundle: %w", err)
		}
		files = append(files, file{path: "etc/ssl/", mode: 0o755}, file{path: "etc/ssl/certs/", mode: 0o755},
			file{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: data})
	}
	entrypoint := o.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{"/" + filepath.Base(o.Binaries[0])}
	}
	if !slices.ContainsFunc(files, func(f file) bool { return "/"+f.path == path.Clean(entrypoint[0]) }) {
		return nil, fmt.Errorf("entrypoint %s is not in the image", entrypoint[0])
	}
	layer, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	base, err := mutate.ConfigFile(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: epoch}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: User, Entrypoint: entrypoint, Env: []string{"PATH=/"}, WorkingDir: "/", Labels: o.Labels},
	})
	if err != nil {
		return nil, fmt.Errorf("set the configuration: %w", err)
	}
	return mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "workpull"}})
}

// architecture reads what a binary is for and refuses one that would not run without a C library beside it.
func architecture(binary []byte) (string, error) {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return "", fmt.Errorf("not a Linux program: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("not static: build it with CGO_ENABLED=0")
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("unknown architecture %s", f.Machine)
}

type file struct {
	path string // a folder if it ends in a slash
	mode int64
	data []byte
}

// layerOf is not compressed: the archive goes from one disk to another on the same machine.
func layerOf(files []file) (v1.Layer, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	var out bytes.Buffer
	if err := writeTar(&out, files); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	return static.NewLayer(out.Bytes(), types.OCIUncompressedLayer), nil
}

func writeTar(w io.Writer, files []file) error {
	tw := tar.NewWriter(w)
	for i, f := range files {
		if i > 0 && files[i-1].path == f.path {
			return fmt.Errorf("two files want to be /%s", f.path)
		}
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: epoch, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeArchive writes an OCI image layout whose blobs are also listed the way docker does.
func writeArchive(w io.Writer, ref name.Tag, img v1.Image) error {
	manifest, err := img.RawManifest()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	configDigest, err := img.ConfigName()
	if err != nil {
		return err
	}
	parsed, err := img.ConfigFile()
	if err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1, Digest: digest, Size: int64(len(manifest)),
			Platform: &v1.Platform{Architecture: parsed.Architecture, OS: parsed.OS},
			Annotations: map[string]string{
				"io.containerd.image.name":          ref.String(),
				"org.opencontainers.image.ref.name": ref.TagStr(),
			},
		}},
	})
	if err != nil {
		return err
	}
	files := []file{
		{path: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{path: "index.json", mode: 0o644, data: index},
		{path: "blobs/", mode: 0o755},
		{path: "blobs/sha256/", mode: 0o755},
		{path: blob(digest), mode: 0o644, data: manifest},
		{path: blob(configDigest), mode: 0o644, data: config},
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	var layerPaths []string
	for _, l := range layers {
		f, err := layerFile(l)
		if err != nil {
			return err
		}
		files, layerPaths = append(files, f), append(layerPaths, f.path)
	}
	docker, err := json.Marshal([]map[string]any{{
		"Config": blob(configDigest), "RepoTags": []string{ref.String()}, "Layers": layerPaths,
	}})
	if err != nil {
		return err
	}
	return writeTar(w, append(files, file{path: "manifest.json", mode: 0o644, data: docker}))
}

func layerFile(l v1.Layer) (file, error) {
	digest, err := l.Digest()
	if err != nil {
		return file{}, err
	}
	r, err := l.Compressed()
	if err != nil {
		return file{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return file{path: blob(digest), mode: 0o644, data: data}, err
}

func blob(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }
