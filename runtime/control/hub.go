package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// period is the time from one inspection to the next when nothing happens: a
	// state is promised at least once a second.
	period = 900 * time.Millisecond
	// minPause is the least time from one inspection to the next, and costPauses
	// the least pause as a multiple of what the last one took, up to a period: 5%
	// of a core.
	minPause   = 50 * time.Millisecond
	costPauses = 20
	// inspectTimeout bounds one question to the controller.
	inspectTimeout = 2 * time.Second
	// maxWatchers bounds what slow ones can keep in memory.
	maxWatchers = 16
)

var (
	errStopping = errors.New("the producer is stopping")
	errCrowded  = fmt.Errorf("there are %d watchers already", maxWatchers)
)

// publication is what a watcher is told: a state, or why there is none.
type publication struct {
	version  uint64
	snapshot *Snapshot
	trouble  string
}

// hub inspects the controller while somebody watches, and measures its rates
// always. It keeps the latest publication only.
type hub struct {
	source  Source
	changes chan struct{} // from the source
	joined  chan struct{}
	origin  time.Time

	arrivals, services meter // of the goroutine of run

	mu       sync.Mutex
	stopped  bool
	watchers int
	version  uint64
	latest   *publication
	next     chan struct{} // closed with the next publication
}

func newHub(source Source) *hub {
	return &hub{
		source: source, changes: make(chan struct{}, 1), joined: make(chan struct{}, 1),
		origin: time.Now(), next: make(chan struct{}),
	}
}

// run publishes until ctx ends.
func (h *hub) run(ctx context.Context) error {
	defer h.stop()
	stop, err := h.source.Notify(h.changes)
	if err != nil {
		return fmt.Errorf("listen to the controller: %w", err)
	}
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var earliest time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.joined:
		case <-h.changes:
			if !h.watched() {
				continue
			}
		case <-timer.C:
		}
		began := time.Now()
		if pause := earliest.Sub(began); pause > 0 { // what else comes meanwhile is told with it
			timer.Reset(pause)
			continue
		}
		h.round(ctx)
		took := time.Since(began)
		earliest = began.Add(took + max(minPause, min(period, costPauses*took)))
		timer.Reset(max(time.Until(began.Add(period)), time.Until(earliest)))
	}
}

// round asks the controller once.
func (h *hub) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	if !h.watched() {
		if counts, err := h.source.Count(ctx); err == nil { // else the next one tells more
			h.measure(counts)
		}
		return
	}
	s, err := h.source.Inspect(ctx)
	if err != nil {
		h.publish(nil, Cut(err.Error(), maxReason))
		return
	}
	session, known := s.Session.Get()
	accepted, both := s.Accepted.Get()
	confirmed, all := s.Confirmed.Get()
	if known && both && all {
		h.measure(Counts{Session: session, Accepted: accepted, Confirmed: confirmed})
	}
	s.ArrivalRate, s.ServiceRate = h.arrivals.rate(), h.services.rate()
	for i := range s.Workers {
		w := &s.Workers[i]
		w.Identity, w.Pod, w.Host, w.RunningID = valid(w.Identity), valid(w.Pod), valid(w.Host), Cut(w.RunningID, maxText)
	}
	sortWorkers(s.Workers)
	s.Workers = slices.CompactFunc(s.Workers, func(a, b Worker) bool { return a.Identity == b.Identity })
	h.publish(s, "")
}

func (h *hub) measure(c Counts) {
	now := time.Since(h.origin)
	h.arrivals.observe(now, c.Session, c.Accepted)
	h.services.observe(now, c.Session, c.Confirmed)
}

func (h *hub) publish(s *Snapshot, trouble string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == 0 {
		return // whoever comes next gets a state of their own time
	}
	h.version++
	h.latest = &publication{version: h.version, snapshot: s, trouble: trouble}
	close(h.next)
	h.next = make(chan struct{})
}

// current returns the latest publication, nil before there is one, and what is
// closed with the next.
func (h *hub) current() (*publication, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil, nil, errStopping
	}
	return h.latest, h.next, nil
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watchers > 0
}

// enter counts a watcher in until it leaves.
func (h *hub) enter() (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil, errStopping
	}
	if h.watchers >= maxWatchers {
		return nil, errCrowded
	}
	h.watchers++
	if h.watchers == 1 {
		select {
		case h.joined <- struct{}{}:
		default:
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.watchers--; h.watchers == 0 {
			h.latest = nil
		}
	}, nil
}

// stop sends every watcher away.
func (h *hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	close(h.next)
	h.next = make(chan struct{})
}
