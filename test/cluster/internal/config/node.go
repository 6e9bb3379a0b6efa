package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// NodeFiles are the configuration files of a node's processes, by their name in its folder.
func (c Cluster) NodeFiles(n int) (map[string][]byte, error) {
	name := NodeName(n)
	dir := filepath.Join(c.Dir, name)
	kubelet, err := c.kubelet(name, dir)
	if err != nil {
		return nil, fmt.Errorf("render kubelet's configuration: %w", err)
	}
	proxy, err := c.proxy(name)
	if err != nil {
		return nil, fmt.Errorf("render kube-proxy's configuration: %w", err)
	}
	cni, err := cniConfig(n)
	if err != nil {
		return nil, fmt.Errorf("render the CNI configuration: %w", err)
	}
	return map[string][]byte{
		"containerd.toml":      c.containerd(dir),
		"kubelet.yaml":         kubelet,
		"kube-proxy.yaml":      proxy,
		"cni/10-pods.conflist": cni,
		"resolv.conf":          []byte("nameserver 127.0.0.1\n"), // for dnsPolicy Default: there is no DNS outside the cluster
	}, nil
}

// containerd renders version 2 of its configuration, which 1.6 reads and 2.x migrates.
func (c Cluster) containerd(dir string) []byte {
	snapshotter := "overlayfs"
	if c.Machine.OverlayState {
		snapshotter = "native"
	}
	return fmt.Appendf(nil, `version = 2
root = %q
state = "/run/containerd"

[grpc]
  address = %q

[plugins."io.containerd.internal.v1.opt"]
  path = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = %t
  disable_apparmor = true # profiles are loaded for the whole machine
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, filepath.Join(dir, "containerd"), containerdSocket, filepath.Join(dir, "opt"), PauseImage,
		c.Machine.NoResource, snapshotter, c.Machine.CNIPlugins, filepath.Join(dir, "cni"))
}

func (c Cluster) kubelet(name, dir string) ([]byte, error) {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"cgroupDriver":             "cgroupfs", // no systemd in the box
		"cgroupRoot":               "/" + c.CgroupOf(name),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"address":                  "0.0.0.0",
		"tlsCertFile":              c.pki("kubelet-server-" + name + ".crt"),
		"tlsPrivateKeyFile":        c.pki("kubelet-server-" + name + ".key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.pki("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDomain": "cluster.local",
		"clusterDNS":    []string{dnsService},
		"resolvConf":    filepath.Join(dir, "resolv.conf"),
		"failSwapOn":    false,
		// Well within the 8 s after which the controller manager gives a node up, on a busy machine too. Set, it is also
		// how often an unchanged status is reported.
		"nodeStatusUpdateFrequency":   "2s",
		"imageGCHighThresholdPercent": 100, // no registry could bring a collected image back
		"evictionHard": map[string]string{
			"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
		"maxPods":             200,
		"serializeImagePulls": false,
		"volumePluginDir":     filepath.Join(dir, "volume-plugins"), // else it is made below /usr/libexec
	}
	if c.Machine.CgroupV1 {
		config["failCgroupV1"] = false // since 1.35 kubelet refuses v1 unless told so
	}
	return yaml.Marshal(config)
}

func (c Cluster) proxy(name string) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "nftables",
		"clusterCIDR":      clusterCIDR,
		"hostnameOverride": name,
		"clientConnection": map[string]any{"kubeconfig": c.pki("kube-proxy.kubeconfig")},
		// Connection tracking's limits are the machine's and cannot be written from another network namespace.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
}

// cniConfig routes each pod (plugin ptp): with a bridge, replies between two pods of a node would pass kube-proxy by.
func cniConfig(n int) ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []any{
			map[string]any{"type": "ptp", "ipMasq": false, "ipam": map[string]any{
				"type":   "host-local",
				"ranges": []any{[]any{map[string]any{"subnet": podCIDR(n)}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			}},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}, "", "  ")
}
