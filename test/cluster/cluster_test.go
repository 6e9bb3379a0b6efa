//go:build cluster

// Package cluster_test brings real clusters up with the real command. It needs root:
//
//	go test -tags cluster -count 1 -timeout 20m .
package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workpull/operator/test/cluster/internal/image"
)

const webImage = "localhost/workpull/cluster-test-web:1"

// loadWeb builds the test's program, packs it and loads it on every node.
func (c tool) loadWeb(t *testing.T) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "web.tar")
	if err := image.Write(image.Options{Ref: webImage, Binaries: []string{goBuild(t, "./images/web")}}, archive); err != nil {
		t.Fatal(err)
	}
	c.run(t, "load-image", archive)
}

func (c tool) apply(t *testing.T, manifest string) {
	t.Helper()
	cmd := c.command(t.Context(), "kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, output)
	}
}

// eventually looks until try succeeds.
func eventually(t *testing.T, why string, limit time.Duration, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %s: %v", why, limit, err)
		}
		<-tick.C
	}
}

// webPods is a pod on each node, named web-NODE, behind one Service.
func webPods(nodes ...string) string {
	var out strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&out, `
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s, labels: {app: web}}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 2
  containers:
  - name: web
    image: %[2]s
    imagePullPolicy: Never
    args: [serve]
    securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
    resources: {limits: {cpu: 200m, memory: 64Mi}}
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---`, n, webImage)
	}
	out.WriteString(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`)
	return out.String()
}

func TestClusterFromUpToDown(t *testing.T) {
	c := build(t, fmt.Sprintf("t%d", os.Getpid()))
	before := lookAtMachine(t)
	t.Cleanup(func() { c.run(t, "down") })

	if output, err := c.try(t, "status"); err == nil {
		t.Errorf("status of nothing succeeds: %s", output)
	}
	c.run(t, "up", "--nodes", "2")
	expectSame(t, before)
	if again := c.run(t, "up", "--nodes", "2"); !strings.Contains(again, "already up") {
		t.Error("a second up does not say that the cluster is up")
	}
	if output, err := c.try(t, "up", "--nodes", "3"); err == nil || !strings.Contains(output, "with 2 nodes, not 3") {
		t.Errorf("another number of nodes: %v", err)
	}
	c.run(t, "status")
	c.loadWeb(t)
	c.apply(t, webPods("node1", "node2"))
	c.run(t, "kubectl", "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=90s")

	t.Run("pods reach each other and names", func(t *testing.T) { podsReachEachOther(t, c) })
	t.Run("crash and mend", func(t *testing.T) { crashAndMend(t, c) })
	t.Run("cut and mend", func(t *testing.T) { cutAndMend(t, c) })
	t.Run("control plane crashes", func(t *testing.T) { controlCrashes(t, c) })
	t.Run("kubectl's exit status is passed on", func(t *testing.T) {
		if _, err := c.try(t, "kubectl", "get", "nodes", "nosuch"); err == nil {
			t.Error("a failing kubectl succeeds")
		}
	})
	expectSame(t, before)
	c.run(t, "down")
	c.expectTrackless(t, before)
	c.run(t, "down")
}

func podsReachEachOther(t *testing.T, c tool) {
	for _, from := range []string{"web-node1", "web-node2"} {
		for _, to := range []string{"web-node1", "web-node2"} {
			ip := strings.TrimSpace(c.run(t, "kubectl", "get", "pod", to, "-o", "jsonpath={.status.podIP}"))
			if got := strings.TrimSpace(c.run(t, "kubectl", "exec", from, "--", "/web", "get", "http://"+ip+":8080/")); got != to {
				t.Errorf("from %s, %s answers as %q", from, ip, got)
			}
		}
		// The Service by its name, until both pods have answered.
		seen := map[string]bool{}
		eventually(t, "both pods answer for the Service", 30*time.Second, func() error {
			seen[strings.TrimSpace(c.run(t, "kubectl", "exec", from, "--", "/web", "get", "http://web.default.svc.cluster.local/"))] = true
			if !seen["web-node1"] || !seen["web-node2"] {
				return fmt.Errorf("seen %v", seen)
			}
			return nil
		})
		if got := strings.TrimSpace(c.run(t, "kubectl", "exec", from, "--", "/web", "lookup", "kubernetes.default")); got != "198.19.0.1" {
			t.Errorf("kubernetes.default is %q", got)
		}
	}
}

func (c tool) ready(t *testing.T, node string) string {
	t.Helper()
	output, err := c.command(t.Context(), "kubectl", "get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`).Output()
	if err != nil {
		return err.Error()
	}
	return string(output)
}

func (c tool) expectUnknown(t *testing.T, node string) {
	t.Helper()
	took := eventually(t, node+" is Unknown", 30*time.Second, func() error {
		if r := c.ready(t, node); r != "Unknown" {
			return fmt.Errorf("Ready is %s", r)
		}
		return nil
	})
	t.Logf("%s Unknown after %.1fs", node, took.Seconds())
	if output, err := c.try(t, "status"); err == nil {
		t.Errorf("status calls it healthy: %s", output)
	}
}

func crashAndMend(t *testing.T, c tool) {
	c.run(t, "node", "crash", "node2")
	if left := c.leftovers(t); slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, c.name+"-") && strings.HasSuffix(s, "-node2") }) {
		t.Errorf("cgroups of the crashed node: %v", left)
	}
	if _, err := c.try(t, "node", "crash", "node2"); err == nil {
		t.Error("a crashed node can be crashed again")
	}
	c.expectUnknown(t, "node2")
	// Node 1 and its names go on.
	c.run(t, "kubectl", "exec", "web-node1", "--", "/web", "lookup", "web")
	c.run(t, "node", "mend", "node2")
	c.run(t, "status")
	eventually(t, "the pod of the crashed node runs again", time.Minute, func() error {
		ip, err := c.command(t.Context(), "kubectl", "get", "pod", "web-node2", "-o", "jsonpath={.status.podIP}").Output()
		if err != nil {
			return err
		}
		output, err := c.command(t.Context(), "kubectl", "exec", "web-node1", "--", "/web", "get", "http://"+string(ip)+":8080/").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

func cutAndMend(t *testing.T, c tool) {
	c.run(t, "node", "cut", "node2")
	c.expectUnknown(t, "node2")
	c.run(t, "node", "mend", "node2")
	c.run(t, "status")
}

func controlCrashes(t *testing.T, c tool) {
	c.run(t, "node", "crash", "control")
	if _, err := c.try(t, "kubectl", "get", "nodes"); err == nil {
		t.Error("the API server answers after its crash")
	}
	c.run(t, "node", "mend", "control")
	eventually(t, "healthy after the control plane is back", time.Minute, func() error {
		output, err := c.command(t.Context(), "status").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	c.run(t, "kubectl", "get", "pod", "web-node1") // etcd's data was on its disk
}

// A tool that is killed at any point of up leaves what the next up or down clears away.
func TestUpAndDownAfterTheToolWasKilled(t *testing.T) {
	c := build(t, fmt.Sprintf("k%d", os.Getpid()))
	before := lookAtMachine(t)
	t.Cleanup(func() { c.run(t, "down") })
	// What the tool says tells how far it is.
	for _, point := range []string{"certificates", "the switch", "boxes started", "API server ready"} {
		killAt(t, c, point)
		if output, err := c.try(t, "status"); err == nil {
			t.Errorf("killed at %q, status is healthy: %s", point, output)
		}
		c.run(t, "down")
		c.expectTrackless(t, before)
	}
	killAt(t, c, "boxes started")
	c.run(t, "up", "--nodes", "1")
	c.run(t, "status")
	c.run(t, "down")
	c.expectTrackless(t, before)
}

func killAt(t *testing.T, c tool, point string) {
	t.Helper()
	cmd := c.command(t.Context(), "up", "--nodes", "1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	buffer := make([]byte, 4096)
	for !bytes.Contains(said, []byte(point)) {
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatalf("up ended before %q: %v\n%s", point, err, said)
		}
		said = append(said, buffer[:n]...)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// Two clusters live beside each other; the end of one is nothing to the other.
func TestTwoClustersAtOnce(t *testing.T) {
	a := build(t, fmt.Sprintf("a%d", os.Getpid()))
	b := tool{a.path, fmt.Sprintf("b%d", os.Getpid())}
	before := lookAtMachine(t)
	t.Cleanup(func() {
		a.run(t, "down")
		b.run(t, "down")
	})
	a.run(t, "up", "--nodes", "1")
	b.run(t, "up", "--nodes", "1")
	a.run(t, "kubectl", "create", "namespace", "only-here")
	if _, err := b.try(t, "kubectl", "get", "namespace", "only-here"); err == nil {
		t.Error("both names lead to one cluster")
	}
	a.run(t, "status")
	a.run(t, "down")
	b.run(t, "status")
	b.run(t, "kubectl", "get", "nodes")
	b.run(t, "down")
	a.expectTrackless(t, before)
	b.expectTrackless(t, before)
}
