package workpull

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
)

const (
	// seedVersion is of the encoding. A member that does not know it refuses
	// the endpoint.
	seedVersion = 1
	// maxSeed is more than any seed that Spawn lets come to be.
	maxSeed = 64 << 10
)

// errSeed is what every refusal of an encoded seed wraps.
var errSeed = errors.New("invalid configuration of a relocated endpoint")

// seed is the configuration of an endpoint on its way to another member: all
// of a spec that is a value.
type seed struct {
	Version  int                  `json:"version"`
	Name     string               `json:"name"`
	Kind     string               `json:"kind"`
	Options  bool                 `json:"options,omitempty"` // it has actor options
	Follows  string               `json:"follows,omitempty"`
	Producer *core.ProducerConfig `json:"producer,omitempty"`
	Queue    string               `json:"queue,omitempty"` // its ID among the dependencies
	Retry    queueRetry           `json:"retry,omitzero"`
	Consumer *core.ConsumerConfig `json:"consumer,omitempty"`
}

func newSeed(s *spec) *seed {
	d := &seed{Version: seedVersion, Name: s.name, Kind: kindOf(reflect.TypeOf(s.inner)), Options: len(s.actor) > 0, Follows: s.follows}
	if s.role == producerRole {
		producer := s.producer
		d.Producer, d.Retry = &producer, s.retry
		if s.queue != nil {
			d.Queue = s.queue.ID()
		}
	} else {
		consumer := s.consumer
		d.Consumer = &consumer
	}
	return d
}

// into is the way back.
func (d *seed) into(s *spec) error {
	if d.Producer == nil {
		s.role, s.follows, s.consumer = workerRole, d.Follows, *d.Consumer
		return nil
	}
	s.role, s.producer, s.retry = producerRole, *d.Producer, d.Retry
	if d.Queue == "" {
		return nil
	}
	for _, dependency := range s.dependencies {
		if queue, ok := dependency.(DurableWorkQueue); ok && queue.ID() == d.Queue {
			s.keepIn(queue)
			return nil
		}
	}
	return fmt.Errorf("%w: its queue %q is not among its dependencies", errSeed, d.Queue)
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (d *seed) MarshalBinary() ([]byte, error) {
	data, err := json.Marshal(d)
	if err == nil && len(data) > maxSeed {
		err = fmt.Errorf("%w: %d bytes, at most %d travel", errSeed, len(data), maxSeed)
	}
	return data, err
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. The bytes come from another
// node: what Spawn would refuse is refused here.
func (d *seed) UnmarshalBinary(data []byte) error {
	if len(data) > maxSeed {
		return fmt.Errorf("%w: %d bytes, wanted at most %d", errSeed, len(data), maxSeed)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return fmt.Errorf("%w: %w", errSeed, err)
	}
	if version.Version != seedVersion {
		return fmt.Errorf("%w: version %d, wanted %d", errSeed, version.Version, seedVersion)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var decoded seed
	if err := decoder.Decode(&decoded); err != nil {
		return fmt.Errorf("%w: %w", errSeed, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", errSeed)
	}
	if err := decoded.validate(); err != nil {
		return fmt.Errorf("%w: %w", errSeed, err)
	}
	*d = decoded
	return nil
}

func (d *seed) validate() error {
	switch {
	case d.Name == "" || d.Kind == "":
		return errors.New("name or kind is empty, wanted both")
	case (d.Producer == nil) == (d.Consumer == nil):
		return errors.New("wanted a producer or a worker")
	case d.Producer != nil:
		cfg := *d.Producer
		if cfg.Name != "" || cfg.Actor != "" {
			return errors.New("names the producer's actor, which is another one now")
		}
		if cfg.Lease < codec.MinLease {
			return fmt.Errorf("lease: is %v, wanted at least %v", cfg.Lease, codec.MinLease)
		}
		if cfg.Durable != (d.Queue != "") {
			return errors.New("wanted a queue's name where there is a queue, and only there")
		}
		if d.Retry.Attempts < 1 || d.Retry.Delay <= 0 {
			return fmt.Errorf("queue retry: is %d, %v, wanted at least one attempt and a delay of more than zero", d.Retry.Attempts, d.Retry.Delay)
		}
		cfg.Name, cfg.Actor = d.Name, "any"
		_, err := core.NewProducer(cfg)
		return err
	}
	cfg := *d.Consumer
	if cfg.Producer != "" || cfg.Endpoint != "" || cfg.Incarnation != "" || cfg.Host != "" || cfg.Actor != "" {
		return errors.New("names the worker's actor, which is another one now")
	}
	cfg.Producer, cfg.Endpoint, cfg.Incarnation, cfg.Actor = d.Follows, d.Name, "any", "any"
	if cfg.Identity == "" {
		cfg.Identity = "any"
	}
	_, err := core.NewConsumer(cfg)
	return err
}
