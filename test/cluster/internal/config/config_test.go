package config

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/workpull/operator/test/cluster/internal/box"
)

func sample() Cluster {
	binaries := map[string]string{}
	for _, b := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		binaries[b] = "/cache/bin/" + b
	}
	return Cluster{
		Name: "demo", Dir: "/cache/clusters/demo", Keep: "/cache", Nodes: 3, CgroupPrefix: "workpull-demo-0a1b2c3d-",
		Images: []string{"/cache/images/pause.tar", "/cache/images/coredns.tar"}, Binaries: binaries,
		Machine: Machine{CNIPlugins: "/usr/lib/cni"},
	}
}

func files(t *testing.T, c Cluster, n int) map[string]string {
	t.Helper()
	rendered, err := c.NodeFiles(n)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for name, data := range rendered {
		out[name] = string(data)
	}
	return out
}

func kubelet(t *testing.T, c Cluster) map[string]any {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(files(t, c, 1)["kubelet.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// Each trap is got round only where its condition holds.
func TestTrapsAreGotRoundOnlyWhereTheyAre(t *testing.T) {
	plain := sample()
	if v, set := kubelet(t, plain)["failCgroupV1"]; set {
		t.Errorf("on cgroup v2, failCgroupV1 is set to %v", v)
	}
	toml := files(t, plain, 1)["containerd.toml"]
	if !strings.Contains(toml, "restrict_oom_score_adj = false") || !strings.Contains(toml, `snapshotter = "overlayfs"`) {
		t.Errorf("with CAP_SYS_RESOURCE and a plain disk:\n%s", toml)
	}

	trapped := sample()
	trapped.Machine = Machine{CgroupV1: true, NoResource: true, OverlayState: true, CNIPlugins: "/opt/cni/bin"}
	if v := kubelet(t, trapped)["failCgroupV1"]; v != false {
		t.Errorf("on cgroup v1, failCgroupV1 is %v", v)
	}
	toml = files(t, trapped, 1)["containerd.toml"]
	for _, want := range []string{"restrict_oom_score_adj = true", `snapshotter = "native"`, `bin_dir = "/opt/cni/bin"`} {
		if !strings.Contains(toml, want) {
			t.Errorf("%s is missing:\n%s", want, toml)
		}
	}
}

func TestEveryNodeHasAddressesOfItsOwn(t *testing.T) {
	c := sample()
	lan := netip.MustParsePrefix("198.18.0.0/24")
	seen := map[string]string{}
	for _, name := range []string{ControlBox, "node1", "node2", "node3"} {
		spec := c.Control()
		if name != ControlBox {
			spec = c.Node(int(name[len(name)-1] - '0'))
		}
		if spec.Name != name {
			t.Errorf("box %s is called %s", name, spec.Name)
		}
		address := netip.MustParsePrefix(spec.Address)
		if address.Masked() != lan {
			t.Errorf("%s is at %s, outside the LAN", name, address)
		}
		for _, unique := range []string{spec.Address, c.MAC(name), spec.Dir} {
			if other := seen[unique]; other != "" {
				t.Errorf("%s and %s share %s", name, other, unique)
			}
			seen[unique] = name
		}
		// To the pods of each other node, and not to its own, which its links lead to.
		want := c.Nodes - 1
		if name == ControlBox {
			want = c.Nodes
		}
		if len(spec.Routes) != want {
			t.Errorf("%s has routes %v", name, spec.Routes)
		}
		for _, r := range spec.Routes {
			if !lan.Contains(netip.MustParseAddr(r.Via)) || r.Via == address.Addr().String() {
				t.Errorf("%s: route %+v", name, r)
			}
		}
	}
	if first, again := c.MAC("node1"), c.MAC("node1"); first != again {
		t.Error("a box gets another hardware address each time")
	}
	if _, err := netip.ParsePrefix(podCIDR(MaxNodes)); err != nil || nodeAddress(MaxNodes) == controlAddress {
		t.Errorf("the last node does not fit: %v", err)
	}
}

func TestCNIHandsOutTheRoutedNetwork(t *testing.T) {
	c := sample()
	var conf struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal([]byte(files(t, c, 2)["cni/10-pods.conflist"]), &conf); err != nil {
		t.Fatal(err)
	}
	subnet := conf.Plugins[0].IPAM.Ranges[0][0].Subnet
	if !slices.Contains(c.Node(1).Routes, box.Route{To: subnet, Via: nodeAddress(2)}) {
		t.Errorf("node1 has no route to %s by node2: %v", subnet, c.Node(1).Routes)
	}
}

func TestNodeStepsComeInOrder(t *testing.T) {
	var names []string
	for _, s := range sample().Node(1).Steps {
		names = append(names, s.Name)
		if s.Once != (s.Name == "images") {
			t.Errorf("%s: once is %t", s.Name, s.Once)
		}
	}
	// kubelet only once the images are there: with imagePullPolicy Never a pod would fail first.
	if got := strings.Join(names, " "); got != "containerd images images kubelet kube-proxy" {
		t.Errorf("steps are %s", got)
	}
}

func TestCgroupsCarryTheClustersName(t *testing.T) {
	c := sample()
	if root := kubelet(t, c)["cgroupRoot"]; root != "/workpull-demo-0a1b2c3d-node1" || root != "/"+c.CgroupOf("node1") {
		t.Errorf("cgroupRoot is %v", root)
	}
}

// Every file that a component is started with is one that is issued or rendered.
func TestEveryNamedFileIsMade(t *testing.T) {
	c := sample()
	c.Dir = t.TempDir()
	if err := c.Certificates(12345, time.Now()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	specs := []box.Spec{c.Control()}
	for n := 1; n <= c.Nodes; n++ {
		spec := c.Node(n)
		specs = append(specs, spec)
		for name, data := range files(t, c, n) {
			text.WriteString(data + "\n")
			path := filepath.Join(spec.Dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range specs {
		for _, step := range s.Steps {
			text.WriteString(strings.Join(step.Args, "\n") + "\n")
		}
	}
	checked := 0
	for _, word := range strings.FieldsFunc(text.String(), func(r rune) bool { return strings.ContainsRune(" \n=\",", r) }) {
		if !strings.HasPrefix(word, c.Dir) || filepath.Ext(word) == "" {
			continue
		}
		checked++
		if _, err := os.Stat(word); err != nil {
			t.Error(err)
		}
	}
	if checked < 30 {
		t.Errorf("only %d files are named: the search is broken", checked)
	}
	admin, err := os.ReadFile(c.AdminKubeconfig())
	if err != nil || !strings.Contains(string(admin), "https://127.0.0.1:12345") {
		t.Errorf("the administrator's kubeconfig does not lead to the chosen port: %v", err)
	}
}

func TestCoreDNSRunsOnEveryNode(t *testing.T) {
	manifests, err := sample().CoreDNS()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for doc := range strings.SplitSeq(string(manifests), "\n---\n") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &object); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		kinds[object["kind"].(string)], _ = object["spec"].(map[string]any)
	}
	if got := kinds["Deployment"]["replicas"]; got != float64(3) {
		t.Errorf("%v replicas on 3 nodes", got)
	}
	if kubelet(t, sample())["clusterDNS"].([]any)[0] != kinds["Service"]["clusterIP"] {
		t.Errorf("kubelet tells pods another address than %v", kinds["Service"]["clusterIP"])
	}
}

// The real containerd reads what is rendered for it.
func TestContainerdReadsItsConfiguration(t *testing.T) {
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("containerd is not installed")
	}
	path := filepath.Join(t.TempDir(), "containerd.toml")
	if err := os.WriteFile(path, []byte(files(t, sample(), 1)["containerd.toml"]), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(containerd, "--config", path, "config", "dump").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`sandbox_image = "` + PauseImage + `"`, `conf_dir = "/cache/clusters/demo/node1/cni"`, `path = "/cache/clusters/demo/node1/opt"`, "disable_apparmor = true"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("containerd understood no %s", want)
		}
	}
}
