package producer

import (
	"time"

	"github.com/workpull/operator/runtime/node"
)

// Settings of a producer's process.
type Settings struct {
	node.Settings

	IntakePort    int           `env:"WORKPULL_INTAKE_PORT" envDefault:"8080" min:"0" max:"65535" usage:"port of the HTTP intake; 0 takes any free one"`
	MaxPending    int           `env:"WORKPULL_MAX_PENDING" envDefault:"10000" min:"1" max:"10000000" usage:"jobs that may wait before the intake answers 429"`
	MaxJobBytes   int64         `env:"WORKPULL_MAX_JOB_BYTES" envDefault:"1048576" min:"1" max:"15728640" usage:"largest body of a job, in bytes; beyond it the intake answers 413"`
	RetryInterval time.Duration `env:"WORKPULL_RETRY_INTERVAL" envDefault:"500ms" min:"10ms" max:"1m" usage:"interval at which the endpoint repeats what was not answered"`
	Queue         string        `env:"WORKPULL_QUEUE" envDefault:"memory" oneof:"memory" usage:"where accepted jobs are kept"`
}
