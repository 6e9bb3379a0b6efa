package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/jpeg" // decodes the pictures and their thumbnails
	_ "image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/workpull/operator/examples/thumbnailer/thumbnail"
)

// picture is a file of Go's own test data.
type picture struct {
	name   string
	file   []byte
	format string
	size   image.Point
}

// findPictures reads the JPEG and PNG files among Go's test data that are
// whole.
func findPictures(ctx context.Context) ([]picture, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "src", "image", "testdata")
	var pictures []picture
	for _, pattern := range []string{"*.jpeg", "*.png"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			if strings.Contains(path, "truncated") {
				continue
			}
			file, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read a picture: %w", err)
			}
			decoded, format, err := image.Decode(bytes.NewReader(file))
			if err != nil {
				return nil, fmt.Errorf("decode %s: %w", path, err)
			}
			pictures = append(pictures, picture{filepath.Base(path), file, format, decoded.Bounds().Size()})
		}
	}
	if len(pictures) < 10 {
		return nil, fmt.Errorf("%d pictures are in %s, wanted 10 or more", len(pictures), folder)
	}
	return pictures, nil
}

// job is one thumbnail to make.
type job struct {
	id    string
	of    picture
	width int
}

// makeJobs gives each picture many widths. The ids are new in each run.
func makeJobs(pictures []picture, count int) []job {
	run := fmt.Sprintf("%06x", rand.IntN(1<<24))
	jobs := make([]job, count)
	for i := range jobs {
		of := pictures[i%len(pictures)]
		jobs[i] = job{id: fmt.Sprintf("%s-%04d-%s", run, i, of.name), of: of, width: 20 + i*7%100}
	}
	return jobs
}

// check decodes a result and compares it with what the job asked for.
func (j *job) check(result []byte) error {
	decoded, format, err := image.Decode(bytes.NewReader(result))
	if err != nil {
		return fmt.Errorf("result %s does not decode: %w", j.id, err)
	}
	if format != j.of.format {
		return fmt.Errorf("result %s is a %s, wanted a %s", j.id, format, j.of.format)
	}
	if got, want := decoded.Bounds().Size(), thumbnail.Size(j.of.size, j.width); got != want {
		return fmt.Errorf("result %s has %v pixels, wanted %v", j.id, got, want)
	}
	return nil
}
