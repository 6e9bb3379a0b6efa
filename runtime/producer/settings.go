package producer

import (
	"time"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
)

// Settings of a producer's process.
type Settings struct {
	node.Settings

	IntakePort    int           `env:"WORKPULL_INTAKE_PORT" envDefault:"8080" min:"0" max:"65535" usage:"port of the HTTP intake; 0 takes any free one"`
	MaxPending    int           `env:"WORKPULL_MAX_PENDING" envDefault:"10000" min:"1" max:"10000000" usage:"jobs that may wait before the intake answers 429"`
	MaxJobBytes   int64         `env:"WORKPULL_MAX_JOB_BYTES" envDefault:"1048576" min:"1" max:"15728640" usage:"largest body of a job, in bytes; beyond it the intake answers 413"`
	RetryInterval time.Duration `env:"WORKPULL_RETRY_INTERVAL" envDefault:"500ms" min:"10ms" max:"1m" usage:"interval at which the endpoint repeats what was not answered"`
	MaxAttempts   int           `env:"WORKPULL_MAX_ATTEMPTS" envDefault:"10" min:"1" max:"1000" usage:"tries of a job before it is a dead letter"`
	Backoff       time.Duration `env:"WORKPULL_BACKOFF" envDefault:"1s" min:"1ms" max:"24h" usage:"first pause before a job is tried again; it doubles"`
	BackoffMax    time.Duration `env:"WORKPULL_BACKOFF_MAX" envDefault:"1m" min:"1ms" max:"24h" usage:"longest pause before a job is tried again"`

	Queue               string        `env:"WORKPULL_QUEUE" envDefault:"memory" oneof:"memory,embedded,postgres" usage:"where accepted jobs are kept"`
	QueueDir            string        `env:"WORKPULL_QUEUE_DIR" want:"a folder on a disk that outlives this process" usage:"folder of an embedded queue"`
	QueueURL            string        `env:"WORKPULL_QUEUE_URL" want:"postgres://user:password@host:port/database" usage:"URL of a PostgreSQL queue's database; it is never logged"`
	QueueAttempts       int           `env:"WORKPULL_QUEUE_ATTEMPTS" envDefault:"3" min:"1" max:"100" usage:"tries of an operation of the queue"`
	QueueBackoff        time.Duration `env:"WORKPULL_QUEUE_BACKOFF" envDefault:"100ms" min:"1ms" max:"1m" usage:"pause between two tries of an operation of the queue"`
	DeduplicationWindow time.Duration `env:"WORKPULL_DEDUPLICATION_WINDOW" envDefault:"5m" min:"0s" max:"168h" usage:"how long a job that is done stays known to an embedded or a PostgreSQL queue"`
	Lease               string        `env:"WORKPULL_LEASE" usage:"name of the Lease by which the active producer is elected; empty where there is no standby"`
}

// Complete fills what follows from other settings and checks those that depend
// on each other.
func (s *Settings) Complete() error {
	if err := s.Settings.Complete(); err != nil {
		return err
	}
	switch {
	case s.Queue == podenv.QueueEmbedded && s.QueueDir == "":
		return &node.SettingError{Setting: podenv.QueueDir, Want: "a folder on a disk that outlives this process"}
	case s.Queue == podenv.QueuePostgres && s.QueueURL == "":
		return &node.SettingError{Setting: podenv.QueueURL, Want: "postgres://user:password@host:port/database"}
	case s.Lease != "" && s.Queue != podenv.QueuePostgres:
		return &node.SettingError{Setting: podenv.Lease, Value: s.Lease, Want: "none, unless the queue is postgres: a standby has to reach what is stored"}
	case s.BackoffMax < s.Backoff:
		return &node.SettingError{Setting: podenv.BackoffMax, Value: s.BackoffMax.String(), Want: "no less than " + s.Backoff.String() + ", the first pause"}
	}
	return nil
}

// flow is the name of the producer's jobs in a database that holds those of
// others too.
func (s *Settings) flow() string { return s.PodNamespace + "/" + s.Producer }
