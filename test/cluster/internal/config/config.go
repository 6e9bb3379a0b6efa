// Package config renders what the cluster's components are started with. It reads and writes nothing.
package config

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/workpull/operator/test/cluster/internal/box"
)

// ControlBox is the name of the box of the control plane. It runs no pods, so that every node can be crashed or cut
// off while the API server goes on.
const ControlBox = "control"

// Addresses are of the range that RFC 2544 gives to tests, and the boxes have no uplink: any number of clusters use
// the same ones, unseen by the machine and by each other.
const (
	controlAddress = "198.18.0.250"
	clusterCIDR    = "198.18.0.0/16"
	serviceCIDR    = "198.19.0.0/16"
	apiService     = "198.19.0.1" // the first of serviceCIDR, which is the kubernetes Service's
	dnsService     = "198.19.0.10"
	apiPort        = 6443
	etcdURL        = "http://127.0.0.1:2379"
	etcdPeerURL    = "http://127.0.0.1:2380"
)

// APIServer is the API server's address for the boxes.
var APIServer = fmt.Sprintf("%s:%d", controlAddress, apiPort)

// MaxNodes is bound by the addresses.
const MaxNodes = 200

// containerdSocket is in the box's own /run.
const containerdSocket = "/run/containerd/containerd.sock"

// PauseImage is the image of every pod's sandbox, CoreDNSImage that of the cluster's DNS.
const (
	PauseImage   = "localhost/workpull/pause:1"
	CoreDNSImage = "localhost/workpull/coredns:1"
)

// Machine is what was found out about this machine; each trap is got round only where its condition holds.
type Machine struct {
	CgroupV1     bool   // kubelet must be told to accept it
	NoResource   bool   // no CAP_SYS_RESOURCE: a negative oom_score_adj is refused, and runc dies of it
	OverlayState bool   // the cache lies on an overlay, on which no other overlay can write: containerd copies instead
	CNIPlugins   string // folder
}

// Cluster is all that the configuration depends on.
type Cluster struct {
	Name         string
	Dir          string // state folder
	Keep         string // cache folder, with the state folder and the binaries in it
	Nodes        int
	CgroupPrefix string
	Images       []string // archives that every node starts with
	Binaries     map[string]string
	Machine      Machine
}

// NodeName is the name of the nth node, counted from 1, and of its box.
func NodeName(n int) string { return "node" + strconv.Itoa(n) }

// MAC is the hardware address of a box: the same after a crash, or the others would send to the old one for seconds.
func (c Cluster) MAC(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("02:%x:%x:%x:%x:%x", sum[:1], sum[1:2], sum[2:3], sum[3:4], sum[4:5])
}

func nodeAddress(n int) string { return fmt.Sprintf("198.18.0.%d", n) }
func podCIDR(n int) string     { return fmt.Sprintf("198.18.%d.0/24", n) }

func (c Cluster) pki(file string) string { return filepath.Join(c.Dir, "pki", file) }

// Logs is the folder of all logs of the cluster.
func (c Cluster) Logs() string { return filepath.Join(c.Dir, "logs") }

// CgroupOf is the cgroup below which a node's pods run.
func (c Cluster) CgroupOf(node string) string { return c.CgroupPrefix + node }

func (c Cluster) routes(but int) []box.Route {
	var routes []box.Route
	for n := 1; n <= c.Nodes; n++ {
		if n != but {
			routes = append(routes, box.Route{To: podCIDR(n), Via: nodeAddress(n)})
		}
	}
	return routes
}

// Control is the box of etcd, API server, controller manager and scheduler.
func (c Cluster) Control() box.Spec {
	dir := filepath.Join(c.Dir, ControlBox)
	ready := fmt.Sprintf("https://127.0.0.1:%d/readyz", apiPort)
	return box.Spec{
		Name: ControlBox, Dir: dir, Logs: c.Logs(), Keep: c.Keep,
		Address: controlAddress + "/24",
		Routes:  c.routes(0), // webhooks and aggregated APIs run in pods
		Steps: []box.Step{
			{Name: "etcd", Args: []string{
				c.Binaries["etcd"], "--name=etcd", "--data-dir=" + filepath.Join(dir, "etcd"),
				"--unsafe-no-fsync=true", // outlives a crash of the box, not of the machine
				"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
				"--listen-peer-urls=" + etcdPeerURL, "--initial-advertise-peer-urls=" + etcdPeerURL,
				"--initial-cluster=etcd=" + etcdPeerURL,
			}},
			{Name: "kube-apiserver", After: []string{etcdURL + "/health"}, Args: []string{
				c.Binaries["kube-apiserver"],
				"--bind-address=0.0.0.0", "--secure-port=" + strconv.Itoa(apiPort), "--advertise-address=" + controlAddress,
				"--etcd-servers=" + etcdURL, "--service-cluster-ip-range=" + serviceCIDR, "--allow-privileged=true",
				// No kube-proxy here: webhooks and aggregated APIs are called at their pods.
				"--enable-aggregator-routing=true",
				"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
				"--client-ca-file=" + c.pki("ca.crt"),
				"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + c.pki("sa.pub"), "--service-account-signing-key-file=" + c.pki("sa.key"),
				"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
				"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
				"--kubelet-certificate-authority=" + c.pki("ca.crt"),
				"--kubelet-preferred-address-types=InternalIP,Hostname",
				"--requestheader-client-ca-file=" + c.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + c.pki("front-proxy-client.crt"),
				"--proxy-client-key-file=" + c.pki("front-proxy-client.key"),
			}},
			{Name: "kube-controller-manager", After: []string{ready}, Args: []string{
				c.Binaries["kube-controller-manager"],
				"--kubeconfig=" + c.pki("controller-manager.kubeconfig"),
				"--authentication-kubeconfig=" + c.pki("controller-manager.kubeconfig"),
				"--authorization-kubeconfig=" + c.pki("controller-manager.kubeconfig"),
				"--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=true",
				"--kube-api-qps=500", "--kube-api-burst=1000", // else ServiceAccounts take 5 s to appear
				"--node-monitor-grace-period=8s", "--node-monitor-period=1s", // a lost node is Unknown in 9 s, not in a minute
				"--root-ca-file=" + c.pki("ca.crt"), "--service-account-private-key-file=" + c.pki("sa.key"),
				"--cluster-signing-cert-file=" + c.pki("ca.crt"), "--cluster-signing-key-file=" + c.pki("ca.key"),
				"--service-cluster-ip-range=" + serviceCIDR, "--allocate-node-cidrs=false",
				"--flex-volume-plugin-dir=" + filepath.Join(dir, "volume-plugins"), // else it is made below /usr/libexec
			}},
			{Name: "kube-scheduler", After: []string{ready}, Args: []string{
				c.Binaries["kube-scheduler"],
				"--kubeconfig=" + c.pki("scheduler.kubeconfig"),
				"--authentication-kubeconfig=" + c.pki("scheduler.kubeconfig"),
				"--authorization-kubeconfig=" + c.pki("scheduler.kubeconfig"),
				"--bind-address=127.0.0.1", "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000",
			}},
		},
	}
}

// Node is the box of the nth node: containerd, kubelet, kube-proxy. Its files are those of NodeFiles.
func (c Cluster) Node(n int) box.Spec {
	name := NodeName(n)
	dir := filepath.Join(c.Dir, name)
	api := "https://" + APIServer + "/readyz"
	steps := []box.Step{{Name: "containerd", Args: []string{"containerd", "--config", filepath.Join(dir, "containerd.toml")}}}
	for _, archive := range c.Images {
		steps = append(steps, box.Step{
			Name: "images", Once: true, After: []string{"unix:" + containerdSocket},
			Args: append(ImportCommand(), archive),
		})
	}
	steps = append(steps,
		box.Step{Name: "kubelet", After: []string{api}, Args: []string{
			c.Binaries["kubelet"], "--config=" + filepath.Join(dir, "kubelet.yaml"),
			"--kubeconfig=" + c.pki("kubelet-"+name+".kubeconfig"),
			"--hostname-override=" + name, "--node-ip=" + nodeAddress(n),
		}},
		box.Step{Name: "kube-proxy", Args: []string{
			c.Binaries["kube-proxy"], "--config=" + filepath.Join(dir, "kube-proxy.yaml"),
		}},
	)
	return box.Spec{
		Name: name, Dir: dir, Logs: c.Logs(), Keep: c.Keep,
		Address: nodeAddress(n) + "/24",
		Routes:  c.routes(n),
		Private: []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers"},
		// kubelet sets these for the whole machine; it finds its wishes fulfilled and writes nothing.
		Sysctls: map[string]string{
			"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
			"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
		},
		Steps: steps,
	}
}

// ImportCommand imports the image archive that is named after it (- for standard
// input), when it is run in a node's box.
func ImportCommand() []string {
	return []string{"ctr", "--address", containerdSocket, "--namespace", "k8s.io", "images", "import"}
}
