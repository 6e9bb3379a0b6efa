//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dump writes the state of a namespace and of the operator to build/e2e/TEST,
// as far as it can be had, for whoever looks into a failure.
func dump(ctx context.Context, t *testing.T, namespace string, h *history) {
	t.Helper()
	dir := filepath.Join(env.dumps, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Logf("dump: %v", err)
		return
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Logf("dump: %v", err)
		}
	}
	for name, args := range map[string][]string{
		"events.txt":    {"get", "events", "-A", "--sort-by=.metadata.creationTimestamp", "-o", "wide"},
		"pods.txt":      {"get", "pods", "-A", "-o", "wide"},
		"nodes.txt":     {"describe", "nodes"},
		"pods.yaml":     {"-n", namespace, "get", "pods", "-o", "yaml"},
		"objects.yaml":  {"-n", namespace, "get", "workpull,deployments,services,endpointslices,controllerrevisions", "-o", "yaml"},
		"namespace.yml": {"get", "namespace", namespace, "-o", "yaml"},
	} {
		out, err := env.kubectl(ctx, args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		write(name, []byte(out))
	}
	write("history.txt", []byte(strings.Join(h.lines(), "\n")+"\n"))
	if records, err := os.ReadFile(filepath.Join(env.records, namespace, "jobs.jsonl")); err == nil {
		write("jobs.jsonl", records)
	}
	for _, ns := range []string{namespace, operatorNamespace} {
		dumpLogs(ctx, t, ns, write)
	}
	t.Logf("the state at the failure is in %s", dir)
}

func dumpLogs(ctx context.Context, t *testing.T, namespace string, write func(string, []byte)) {
	var pods corev1.PodList
	if err := env.api.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		t.Logf("dump: list pods of %s: %v", namespace, err)
		return
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			for _, previous := range []bool{true, false} {
				if previous && c.RestartCount == 0 {
					continue
				}
				log, err := logs(ctx, pod.Namespace, pod.Name, c.Name, previous)
				if err != nil {
					log += "\n" + err.Error()
				}
				name := fmt.Sprintf("log-%s-%s.txt", pod.Name, c.Name)
				if previous {
					name = fmt.Sprintf("log-%s-%s-previous.txt", pod.Name, c.Name)
				}
				write(name, []byte(log))
			}
		}
	}
}

// logs returns what a container printed, or the one before its last restart.
func logs(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
	stream, err := env.pods.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).Stream(ctx)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	_, err = io.Copy(&out, stream)
	return out.String(), errors.Join(err, stream.Close())
}
