package worker

import (
	"time"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
)

// Settings of a worker's process. Run reads them from the environment.
type Settings struct {
	node.Settings

	Pool              string        `env:"WORKPULL_POOL" usage:"name of the WorkerPool"`
	Membership        string        `env:"WORKPULL_MEMBERSHIP" envDefault:"Attached" oneof:"Attached,Member" usage:"whether this node is a member of the producer's cluster"`
	ProducerHost      string        `env:"WORKPULL_PRODUCER_HOST" want:"a DNS name or an address of the producer" usage:"name that resolves to the addresses of the producer's pods"`
	ProducerPort      int           `env:"WORKPULL_PRODUCER_PORT" envDefault:"0" min:"0" max:"65535" usage:"port of the producer's remoting; 0 means the same as this node's"`
	Concurrency       int           `env:"WORKPULL_CONCURRENCY" envDefault:"1" min:"1" max:"1000" usage:"jobs that run side by side in this process"`
	FlowControlWindow int           `env:"WORKPULL_FLOW_CONTROL_WINDOW" envDefault:"50" min:"1" max:"10000" usage:"jobs that each endpoint may hold, the running one included"`
	DrainTimeout      time.Duration `env:"WORKPULL_DRAIN_TIMEOUT" envDefault:"30s" min:"0s" max:"24h" usage:"how long a running job may go on after SIGTERM"`
}

// Complete fills what follows from other settings.
func (s *Settings) Complete() error {
	if err := s.Settings.Complete(); err != nil {
		return err
	}
	if s.Membership == podenv.MembershipAttached && s.ProducerHost == "" {
		return &node.SettingError{Setting: podenv.ProducerHost, Want: "a DNS name or an address of the producer"}
	}
	if s.ProducerPort == 0 {
		s.ProducerPort = s.RemotingPort
	}
	return nil
}
