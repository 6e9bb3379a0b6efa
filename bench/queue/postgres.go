package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
)

// postgresFlow measures queue/postgres on a server of the run's own. Its
// settings are PostgreSQL's defaults where they bear on speed, as Debian's
// package has them; those that decide what a commit means are set.
func postgresFlow(e extent) series.Experiment {
	f := flow{name: "PostgreSQL, 256 credits", bar: 20_000, credits: credits}
	return series.Experiment{
		Name:     f.name,
		Measures: f.measures(false),
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			s := new(stage)
			defer func() { err = errors.Join(err, s.end()) }()
			var url string
			if err := s.play(func() {
				url = pgtest.New(s, "fsync = on", "synchronous_commit = on", "shared_buffers = 128MB", "max_wal_size = 1GB", "autovacuum_naptime = 1min").Database(s)
			}); err != nil {
				return nil, err
			}
			queue := postgres.New(url, "bench")
			rate, _, err := f.run(ctx, r, e.Span, queue)
			return []float64{rate}, errors.Join(err, queue.Close())
		},
	}
}

// stage stands in for the test that pgtest starts its servers for. It has what
// pgtest uses of one, and panics at anything else.
type stage struct {
	testing.TB
	failed   []error
	cleanups []func()
}

// abort is what Fatalf panics with.
type abort struct{ error }

// play runs what may end by Fatalf.
func (s *stage) play(f func()) (err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case abort:
			err = cause.error
		default:
			panic(cause)
		}
	}()
	f()
	return nil
}

// end cleans up, the latest first, and returns what failed.
func (s *stage) end() error {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	return errors.Join(s.failed...)
}

// Helper implements testing.TB.
func (s *stage) Helper() {}

// Cleanup implements testing.TB.
func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Errorf implements testing.TB.
func (s *stage) Errorf(format string, args ...any) {
	s.failed = append(s.failed, fmt.Errorf(format, args...))
}

// Fatalf implements testing.TB.
func (s *stage) Fatalf(format string, args ...any) { panic(abort{fmt.Errorf(format, args...)}) }
