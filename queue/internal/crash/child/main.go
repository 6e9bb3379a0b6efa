// Command child is the process that package crash kills: an actor system with a
// producer that has a durable queue, and four workers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"

	"github.com/workpull/operator/queue/internal/crash"
	"github.com/workpull/operator/workpull"
)

const (
	workers    = 4
	credits    = 64
	storeAhead = 256
	// window of deduplication: short, so that jobs expire while it lives.
	window = 20 * time.Millisecond
	// patience is how long anything may take before it is a failure.
	patience = 20 * time.Second
)

func main() {
	life, err := strconv.Atoi(os.Getenv(crash.EnvLife))
	if err != nil {
		exit(err)
	}
	jobs, err := strconv.Atoi(os.Getenv(crash.EnvJobs))
	if err != nil {
		exit(err)
	}
	book, err := crash.OpenLog(os.Getenv(crash.EnvLog), life)
	if err != nil {
		exit(err)
	}
	backend, ok := crash.Backends[os.Getenv(crash.EnvBackend)]
	if !ok {
		exit(fmt.Errorf("no backend %q", os.Getenv(crash.EnvBackend)))
	}
	l := &lifetime{life: life, jobs: jobs, book: book, backend: backend, target: os.Getenv(crash.EnvTarget)}
	if err := l.live(context.Background()); err != nil {
		book.Write(crash.Failed, err.Error())
		exit(err)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// lifetime is one life of the process.
type lifetime struct {
	life, jobs int
	book       *crash.Log
	backend    crash.Backend
	target     string
}

func (l *lifetime) live(ctx context.Context) error {
	if err := l.restore(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	queue := l.backend.Open(l.target)
	if err := l.fence(ctx, queue); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	offers, err := l.unanswered()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for n := range l.jobs {
		offers = append(offers, fmt.Sprintf("job-%d-%d", l.life, n))
	}
	system, err := actor.NewActorSystem("crash", actor.WithLogger(log.DiscardLogger))
	if err != nil {
		return err
	}
	if err := system.Start(ctx); err != nil {
		return err
	}
	producer, err := workpull.Spawn(ctx, system, "dispatcher", newDispatcher(offers, l.book), workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableDurableWorkQueue(queue), workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableDeduplicationWindow(window),
		workpull.WithReliableCredits(credits), workpull.WithReliableStoreAhead(storeAhead)))
	if err != nil {
		return fmt.Errorf("spawn the producer: %w", err)
	}
	for n := range workers {
		if _, err := workpull.Spawn(ctx, system, fmt.Sprintf("worker-%d", n), &worker{l.book}, workpull.AsReliableWorkPullingWorker("dispatcher")); err != nil {
			return fmt.Errorf("spawn a worker: %w", err)
		}
	}
	if l.jobs > 0 {
		// Backups until it is killed.
		for {
			if err := l.backup(ctx, queue); err != nil {
				return fmt.Errorf("back up: %w", err)
			}
		}
	}
	return l.finish(ctx, system, producer, queue)
}

// finish waits until nothing is left, and closes the queue.
func (l *lifetime) finish(ctx context.Context, system actor.ActorSystem, producer *actor.PID, queue workpull.DurableWorkQueue) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for quiet := 0; quiet < 3; quiet++ {
		s, err := workpull.Inspect(ctx, producer)
		if err != nil {
			return err
		}
		if s.Waiting+s.InFlight+s.Delayed > 0 || len(s.Workers) < workers {
			quiet = -1
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("jobs are left: %+v", s)
		}
	}
	if err := workpull.Stop(ctx, system); err != nil {
		return err
	}
	return shut(queue)
}

// fence lets a writer write after another has loaded.
func (l *lifetime) fence(ctx context.Context, queue workpull.DurableWorkQueue) error {
	old := l.backend.Open(l.target)
	_, epoch, err := old.Load(ctx)
	if err != nil {
		return err
	}
	state, younger, err := queue.Load(ctx)
	if err != nil {
		return err
	}
	if younger.Value() <= epoch.Value() {
		return fmt.Errorf("epoch %d after %d", younger.Value(), epoch.Value())
	}
	id := fmt.Sprintf("fenced-%d", l.life)
	payload, err := workpull.NewReliablePayload("type.googleapis.com/google.protobuf.StringValue", []byte("\n\x01x"))
	if err != nil {
		return err
	}
	request, err := workpull.NewStoreRequest(id, state.Cursor()+1, payload)
	if err != nil {
		return err
	}
	if _, err = old.Store(ctx, epoch, request); errors.Is(err, workpull.ErrQueueFenced) {
		l.book.Write(crash.Fenced, id)
	} else if err == nil {
		l.book.Write(crash.Unfenced, id)
	} else {
		return err
	}
	if dedup, ok := queue.(workpull.DeduplicatingWorkQueue); ok {
		if err := dedup.KeepCompleted(ctx, younger, window); err != nil {
			return err
		}
	}
	return shut(old)
}

// unanswered are jobs that were offered and of which nobody heard that they are
// stored: they are offered again (rule 69).
func (l *lifetime) unanswered() ([]string, error) {
	if l.jobs == 0 {
		return nil, nil
	}
	f, err := os.Open(os.Getenv(crash.EnvLog))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := crash.ReadLog(f)
	if err != nil {
		return nil, err
	}
	stored := map[string]bool{}
	for _, line := range lines {
		if line.Event == crash.Acknowledged {
			stored[line.Job] = true
		}
	}
	var again []string
	for i := len(lines) - 1; i >= 0 && len(again) < 32; i-- {
		if line := lines[i]; line.Event == crash.Offered && !stored[line.Job] {
			stored[line.Job] = true // once
			again = append(again, line.Job)
		}
	}
	return again, nil
}

// backuper is a queue that can be backed up.
type backuper interface {
	Backup(ctx context.Context, dir string) error
}

// backup makes one, now and then.
func (l *lifetime) backup(ctx context.Context, queue workpull.DurableWorkQueue) error {
	time.Sleep(15 * time.Millisecond)
	b, ok := queue.(backuper)
	if !ok {
		return nil
	}
	if err := discard(l.target + "-backup"); err != nil {
		return err
	}
	return b.Backup(ctx, l.target+"-backup")
}

// restore opens the backup that an earlier life made, if any, and loads it.
func (l *lifetime) restore(ctx context.Context) error {
	dir := l.target + "-backup"
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	queue := l.backend.Open(dir)
	state, _, err := queue.Load(ctx)
	if err != nil {
		return err
	}
	l.book.Write(crash.Restored, fmt.Sprint(state.Len()))
	if err := shut(queue); err != nil {
		return err
	}
	return discard(dir)
}

// discard removes a directory so that a kill leaves all of it or nothing under
// its name.
func discard(dir string) error {
	doomed := dir + ".doomed"
	if err := os.RemoveAll(doomed); err != nil {
		return err
	}
	if err := os.Rename(dir, doomed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(doomed)
}

func shut(queue workpull.DurableWorkQueue) error {
	if c, ok := queue.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
