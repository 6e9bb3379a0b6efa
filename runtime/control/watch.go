package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/workpull/operator/runtime/control/controlpb"
)

// StaleAfter is how long a snapshot is good for after it came; the server pushes
// one at least each second.
const StaleAfter = 5 * time.Second

// View is what a client knows of a producer.
type View struct {
	// Snapshot is the last that came whole, nil before the first.
	Snapshot *Snapshot
	// Heard is when it came, by the client's clock.
	Heard time.Time
	// Err is why nothing came since; nil when something did.
	Err error
}

// Stale tells that the snapshot is too old to go by, or that there is none: what
// holds now is not known.
func (v *View) Stale(now time.Time) bool {
	return v.Snapshot == nil || now.Sub(v.Heard) >= StaleAfter
}

// Watch tells what is known of the producer, until ctx ends: whenever a state or
// an error comes, and once more when the state has become stale. It calls tell
// from one goroutine, always with the latest view: while tell is busy the views
// in between are lost. It connects again for as long as it takes, after pauses
// of 50 ms to 2 s.
func (c *Client) Watch(ctx context.Context, tell func(View)) {
	w := &watch{client: c, changed: make(chan struct{}, 1)}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { w.follow(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-timer.C:
		}
		view := w.current()
		if !view.Stale(time.Now()) {
			timer.Reset(time.Until(view.Heard.Add(StaleAfter)))
		}
		tell(view)
	}
}

// watch is one call of Watch.
type watch struct {
	client  *Client
	changed chan struct{} // room for one

	mu   sync.Mutex
	view View
}

func (w *watch) current() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *watch) set(change func(*View)) {
	w.mu.Lock()
	change(&w.view)
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// follow reads one stream after the other.
func (w *watch) follow(ctx context.Context) {
	for failures := 0; ; failures++ {
		heard, err := w.read(ctx)
		if ctx.Err() != nil {
			return
		}
		err = w.client.failed("watch the state", err)
		w.set(func(v *View) { v.Err = err })
		if heard {
			failures = 0
		}
		timer := time.NewTimer(pauseAfter(failures, rand.Float64()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		w.client.connection.ResetConnectBackoff() // the pause was ours
	}
}

// pauseAfter is how long to wait after so many failures in a row, besides the
// last; chance is from 0 to 1.
func pauseAfter(failures int, chance float64) time.Duration {
	longest := min(lastPause, firstPause<<min(failures, 16))
	return longest - time.Duration(chance*float64(longest/2))
}

var errSilent = fmt.Errorf("nothing came for %v", StaleAfter)

// read reads one stream to its end, and tells whether a state came. A stream on
// which nothing comes ends after StaleAfter.
func (w *watch) read(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(StaleAfter, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := w.client.api.Watch(ctx, &controlpb.WatchRequest{})
	if err != nil {
		return false, because(ctx, err)
	}
	var a assembly
	for {
		u, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the producer ended the stream")
			}
			return heard, because(ctx, err)
		}
		silence.Reset(StaleAfter)
		if u.Trouble != nil {
			trouble := w.client.failed("watch the state", fmt.Errorf("the controller does not answer: %s", u.GetTrouble()))
			w.set(func(v *View) { v.Err = trouble })
			continue
		}
		s, err := a.add(u)
		if err != nil {
			return heard, err
		}
		if s != nil {
			heard = true
			now := time.Now()
			w.set(func(v *View) { *v = View{Snapshot: s, Heard: now} })
		}
	}
}

// because prefers why a stream was cancelled to that it was.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
