package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratesBesideTheSource(t *testing.T) {
	root := copyTestdata(t)
	args := []string{"-root", root, "testdata/greeting.proto", "testdata/name.proto"}
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	greeting := read(t, filepath.Join(root, "testdata/greeting.pb.go"))
	for _, want := range []string{
		"// Greeting is what one says.\ntype Greeting struct {",
		"package testdata",
		"durationpb.Duration",
		"source: testdata/greeting.proto",
	} {
		if !strings.Contains(greeting, want) {
			t.Errorf("generated code lacks %q", want)
		}
	}
	if name := read(t, filepath.Join(root, "testdata/name.pb.go")); !strings.Contains(name, "type Name struct {") {
		t.Error("second file was not generated")
	}

	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	if again := read(t, filepath.Join(root, "testdata/greeting.pb.go")); again != greeting {
		t.Error("a second run wrote something else")
	}
}

func TestRefusals(t *testing.T) {
	root := copyTestdata(t)
	broken := filepath.Join(root, "broken.proto")
	if err := os.WriteFile(broken, []byte("syntax = \"proto3\";\nmessage A { string b = 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":              {nil, "no .proto file named"},
		"error with its place": {[]string{"-root", root, "broken.proto"}, "broken.proto:2:"},
		"missing plug-in":      {[]string{"-root", root, "-plugin", "no-such-plugin", "testdata/name.proto"}, `run plug-in "no-such-plugin"`},
		"failing plug-in":      {[]string{"-root", root, "-plugin", "false", "testdata/name.proto"}, "exit status 1"},
		"empty plug-in":        {[]string{"-root", root, "-plugin", " ", "testdata/name.proto"}, "empty command line"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), test.args)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// copyTestdata gives a root of its own, so that generated files never land in
// the repository.
func copyTestdata(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "testdata"), os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	return root
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
