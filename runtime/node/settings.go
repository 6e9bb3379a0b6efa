package node

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/workpull/operator/runtime/podenv"
)

// Environment variables that matter outside of Kubernetes only; the operator
// sets none of them.
const (
	// Seeds lists gossip addresses (host:port) of members to join when no
	// Kubernetes API tells of them.
	Seeds = "WORKPULL_SEEDS"
	// ProducerPort is the remoting port of the producer; 0 means the same as
	// the node's own.
	ProducerPort = "WORKPULL_PRODUCER_PORT"
	// LogLevel is debug, info, warn or error.
	LogLevel = "WORKPULL_LOG_LEVEL"
)

// Settings of a process in a pod, shared by all roles. The tags are read by
// Parse; a role embeds Settings in its own struct.
type Settings struct {
	Producer string `env:"WORKPULL_PRODUCER" required:"true" usage:"name of the Producer, and of its endpoint in the actor system"`
	System   string `env:"WORKPULL_SYSTEM" usage:"name of the actor system; workpull-<namespace>-<producer> when empty"`

	PodName      string `env:"WORKPULL_POD_NAME" usage:"name of this pod"`
	PodNamespace string `env:"WORKPULL_POD_NAMESPACE" envDefault:"default" usage:"namespace of this pod"`
	PodUID       string `env:"WORKPULL_POD_UID" usage:"UID of this pod; names a worker together with a nonce"`
	PodIP        string `env:"WORKPULL_POD_IP" envDefault:"127.0.0.1" want:"an IP address of this machine" usage:"address that this node binds and announces"`
	NodeName     string `env:"WORKPULL_NODE_NAME" usage:"name of the Kubernetes node"`

	RemotingPort int `env:"WORKPULL_REMOTING_PORT" envDefault:"9000" min:"1" max:"65535" usage:"port of GoAkt's remoting"`
	GossipPort   int `env:"WORKPULL_GOSSIP_PORT" envDefault:"9001" min:"1" max:"65535" usage:"port of the cluster's gossip, TCP and UDP"`
	PeersPort    int `env:"WORKPULL_PEERS_PORT" envDefault:"9002" min:"1" max:"65535" usage:"port of the cluster's registry"`
	LinkPort     int `env:"WORKPULL_LINK_PORT" envDefault:"9003" min:"1" max:"65535" usage:"port of the producer to which every worker holds a connection"`
	HealthPort   int `env:"WORKPULL_HEALTH_PORT" envDefault:"8081" min:"0" max:"65535" usage:"port of probes and metrics; 0 takes any free one"`

	Seeds    []string `env:"WORKPULL_SEEDS" usage:"gossip addresses (host:port) of members to join outside of Kubernetes"`
	LogLevel string   `env:"WORKPULL_LOG_LEVEL" envDefault:"info" oneof:"debug,info,warn,error" usage:"least severe level that is logged"`
}

// Complete fills what follows from other settings and checks what no tag can
// say.
func (s *Settings) Complete() error {
	if _, err := netip.ParseAddr(s.PodIP); err != nil {
		return refuse(podenv.PodIP, s.PodIP, "an IP address of this machine")
	}
	for _, seed := range s.Seeds {
		if _, err := netip.ParseAddrPort(seed); err != nil {
			return refuse(Seeds, seed, "addresses such as 10.0.0.7:9001, separated by commas")
		}
	}
	if s.System == "" {
		s.System = SystemName(s.PodNamespace, s.Producer)
	}
	if s.System != allowed(s.System) {
		return refuse(podenv.System, s.System, "letters, digits, - and _, with a letter or digit first")
	}
	return nil
}

// Level is LogLevel as slog has it.
func (s *Settings) Level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return slog.LevelInfo // Parse has refused anything else
	}
	return level
}

// Endpoint is the name of the producer endpoint in the actor system: the
// Producer's name, as far as GoAkt allows its characters.
func (s *Settings) Endpoint() string { return allowed(s.Producer) }

// SystemName is the name of the actor system of a producer: what GoAkt allows
// in a name, each other character turned into "-".
func SystemName(namespace, producer string) string {
	return allowed(fmt.Sprintf("workpull-%s-%s", namespace, producer))
}

func allowed(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	return strings.TrimLeft(name, "-_")
}
