package main

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/examples/thumbnailer/thumbnail"
)

// The demonstration's verdict rests on this check.
func TestCheckOfAResult(t *testing.T) {
	pictures, err := findPictures(context.Background())
	require.NoError(t, err)
	jobs := makeJobs(pictures, 500)
	ids := map[string]bool{}
	for i := range jobs {
		j := &jobs[i]
		require.False(t, ids[j.id], "ids are unique")
		ids[j.id] = true
		if i < len(pictures) {
			small, _, err := thumbnail.Make(j.of.file, j.width)
			require.NoError(t, err)
			require.NoError(t, j.check(small), j.id)
			require.ErrorContains(t, j.check(small[:len(small)/2]), "does not decode", j.id)
		}
	}

	var wrong bytes.Buffer
	require.NoError(t, png.Encode(&wrong, image.NewGray(image.Rect(0, 0, 3, 3))))
	for i := range jobs {
		switch j := &jobs[i]; j.of.format {
		case "png":
			require.ErrorContains(t, j.check(wrong.Bytes()), "has (3,3) pixels, wanted")
		case "jpeg":
			require.ErrorContains(t, j.check(wrong.Bytes()), "is a png, wanted a jpeg")
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	good := options{cluster: own, nodes: 2, jobs: 500, timeout: time.Minute, helm: os.Args[0]}
	require.NoError(t, good.check())
	for want, change := range map[string]func(*options){
		`--cluster is "other": want own or existing`: func(o *options) { o.cluster = "other" },
		`--nodes is 0: want at least 1`:              func(o *options) { o.nodes = 0 },
		`--jobs is 3: want at least 20`:              func(o *options) { o.jobs = 3 },
		`--timeout is 0s: want more than 0`:          func(o *options) { o.timeout = 0 },
		`--helm is "/no/helm": want the helm binary`: func(o *options) { o.helm = "/no/helm" },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.check(), want)
	}
}

// Each image that the manifests name is one of those that are loaded.
func TestImagesOfTheManifests(t *testing.T) {
	files, err := filepath.Glob("../../examples/thumbnailer/manifests/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 3)
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, text...)
	}
	for _, name := range images {
		all = replaceImage(all, "workpull/"+name, "registry.example/w/"+name+":v9")
	}
	require.Contains(t, string(all), "image: registry.example/w/example-sink:v9\n")
	require.Contains(t, string(all), "image: registry.example/w/example-thumbnailer:v9\n")
	require.NotContains(t, string(all), "image: workpull/")
}

func TestContainerID(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "sidecar", ContainerID: "containerd://aa"},
		{Name: "worker", ContainerID: "containerd://bb"},
	}
	id, err := containerID(pod)
	require.NoError(t, err)
	require.Equal(t, "bb", id)
	pod.Status.ContainerStatuses[1].ContainerID = ""
	_, err = containerID(pod)
	require.ErrorContains(t, err, `has no container "worker"`)
}

// Elsewhere than on a terminal the table comes as plain lines, and not often.
func TestReportInPlainLines(t *testing.T) {
	var out bytes.Buffer
	r := &report{to: &out, begun: time.Now()}
	r.table([]string{"a", "b"})
	r.table([]string{"c"})
	r.say("d")
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "a\n")
	require.NotContains(t, out.String(), "c\n")
	require.Contains(t, out.String(), "d\n")
}
