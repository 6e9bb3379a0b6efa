package worker

import (
	"context"
	"sync"
	"time"

	"github.com/workpull/operator/workpull"
)

const (
	// orphanTimeout ends a drain whose producer is gone: nobody is left to
	// take the outcome.
	orphanTimeout = 30 * time.Second
	// drainPoll is how often a drain looks whether the producer is gone.
	drainPoll = time.Second
	// interruptGrace is what handlers get to return once they are told to.
	interruptGrace = time.Second
)

// drain leaves in order: no more jobs, what has not started goes back at once,
// what runs may go on for the drain time-out and not longer (S36, S37). Then
// handlers are interrupted.
func (p *process) drain(interrupt context.CancelFunc) {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	begun := p.clock.Now()
	timer := p.clock.NewTimer(p.settings.DrainTimeout)
	defer timer.Stop()
	ticker := p.clock.NewTicker(drainPoll)
	defer ticker.Stop()
	p.logger.Info("draining: no more jobs are taken", "timeout", p.settings.DrainTimeout.String())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	drained := p.release(ctx)
	lastSeen := begun // the producer
	for {
		select {
		case <-drained:
			p.logger.Info("drained", "after", p.clock.Since(begun).String())
			return
		case <-timer.C():
			p.logger.Warn("the drain time-out is over: running jobs are left to others", "timeout", p.settings.DrainTimeout.String())
			p.interrupt(interrupt, drained)
			return
		case <-ticker.C():
			linked := p.linked()
			if linked {
				lastSeen = p.clock.Now()
			}
			if p.clock.Since(lastSeen) >= orphanTimeout || p.idle(ctx, linked) {
				p.logger.Warn("the producer is gone: leaving", "after", p.clock.Since(begun).String())
				p.interrupt(interrupt, drained)
				return
			}
		}
	}
}

// release drains every endpoint; the channel closes when none holds a job.
func (p *process) release(ctx context.Context) <-chan struct{} {
	endpoints, _ := p.pids()
	var group sync.WaitGroup
	var mu sync.Mutex
	clean := true
	for _, pid := range endpoints {
		group.Go(func() {
			if err := workpull.Drain(ctx, pid); err != nil {
				mu.Lock()
				clean = false
				mu.Unlock()
				if ctx.Err() == nil {
					p.logger.Error("cannot drain an endpoint", "endpoint", pid.Name(), "error", err)
				}
			}
		})
	}
	drained := make(chan struct{})
	go func() {
		group.Wait()
		if clean {
			close(drained)
		}
	}()
	return drained
}

// idle tells whether no endpoint holds a job and none can get one, because the
// producer is gone or has not registered it: there is nothing left to hand back.
func (p *process) idle(ctx context.Context, linked bool) bool {
	endpoints, _ := p.pids()
	for _, pid := range endpoints {
		asking, cancel := context.WithTimeout(ctx, statusTimeout)
		status, err := workpull.WorkerStatus(asking, pid)
		cancel()
		if err != nil || status.InFlightID != "" || status.Buffered > 0 || (linked && status.Registered) {
			return false
		}
	}
	return true
}

// interrupt ends the handlers' context and gives them a moment to return.
func (p *process) interrupt(interrupt context.CancelFunc, drained <-chan struct{}) {
	interrupt()
	timer := p.clock.NewTimer(interruptGrace)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C():
	}
}
