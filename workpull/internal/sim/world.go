// Package sim runs the two controllers of workpull/internal/core against a
// network, workers and a producer actor that misbehave, all from one seed. No
// goroutine runs and no clock is read: the same seed is the same history.
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// Options set the size of a run and how often things go wrong.
type Options struct {
	Workers, Jobs int
	Window        int
	Credits       int
	StoreAhead    int
	Attempts      int
	Steps         int
	// Faults are on for the first Steps; then they stop, and every job has
	// to be done.
	Faults bool
}

// Strikes counts how often each kind of fault struck.
type Strikes struct {
	Drop, Duplicate, Reorder, SendFailure, Crash, Restart, Pause, Panic, Rejection, Drain, Silence int
}

// World is one run.
type World struct {
	opt     Options
	rng     *rand.Rand
	now     time.Duration
	queue   events
	order   uint64
	faults  bool
	Strikes Strikes
	Recalls int
	Late    int
	Dead    int
	Trace   []string

	producer    *core.Producer
	pausedUntil time.Duration
	submitted   int
	answered    map[uint64]string // token → MessageID
	accepted    map[string]bool
	ran         map[string]bool // job and worker identity: it entered that handler
	done        map[string]bool // some handler finished it
	confirmed   map[string]int

	workers  []*worker
	bindings map[uint64]*flow // as the producer controller announced them
	nextID   uint64
	err      error
}

// worker is one endpoint with its consumer controller.
type worker struct {
	name     string
	peer     core.Peer
	reg      core.Registration
	consumer *core.Consumer
	alive    bool
	cutUntil time.Duration // silent: nothing comes or goes
	run      uint64        // number of the delivery in the handler, 0 when idle
	running  core.Delivery
	session  uint64
	binding  uint64
}

// flow is what the world knows of one binding.
type flow struct {
	worker  *worker
	last    uint64 // highest sequence dispatched
	granted uint64 // highest demand ever sent
	ended   bool
}

type event struct {
	at    time.Duration
	order uint64
	to    *worker // nil: the producer
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

const (
	retryInterval  = 500 * time.Millisecond
	resendInterval = 2 * time.Second
	lease          = 6 * time.Second
)

// Run plays one seed. The error names the first invariant that broke.
func Run(seed uint64, opt Options) (*World, error) {
	w := &World{
		opt: opt, rng: rand.New(rand.NewPCG(seed, 1)), faults: opt.Faults,
		answered: map[uint64]string{}, accepted: map[string]bool{}, ran: map[string]bool{}, done: map[string]bool{}, confirmed: map[string]int{},
		bindings: map[uint64]*flow{},
	}
	p, err := core.NewProducer(core.ProducerConfig{
		Name: "jobs", Actor: "actor", RetryInterval: retryInterval,
		Credits: opt.Credits, StoreAhead: opt.StoreAhead, Lease: lease, Confirmations: true,
		MaxAttempts: opt.Attempts, FirstBackoff: 200 * time.Millisecond,
	})
	if err != nil {
		return w, err
	}
	w.producer = p
	p.Start(0, w.fresh(), nil)
	w.settleProducer()
	w.at(retryInterval, nil, w.tickProducer)
	for i := range opt.Workers {
		w.workers = append(w.workers, w.spawn(fmt.Sprintf("w%d", i)))
	}
	w.play()
	return w, w.err
}

func (w *World) play() {
	for step := 0; w.err == nil; step++ {
		if step == w.opt.Steps {
			w.faults = false
			w.say("faults stop")
			w.revive()
		}
		if w.over() && step > w.opt.Steps {
			return
		}
		if step > w.opt.Steps+400_000 {
			w.fail("no progress: %d of %d jobs confirmed, %+v", len(w.confirmed), w.opt.Jobs, w.producer.Snapshot(w.now))
			return
		}
		e := heap.Pop(&w.queue).(event)
		w.now = max(w.now, e.at)
		if e.to == nil && w.now < w.pausedUntil { // the producer is kept from running: its mailbox waits
			w.schedule(event{at: w.pausedUntil, order: e.order, do: e.do})
			continue
		}
		if e.to == nil || e.to.alive {
			e.do()
		}
		if w.faults {
			w.strike()
		}
		w.check()
	}
}

func (w *World) over() bool { return w.submitted == w.opt.Jobs && len(w.confirmed) == w.opt.Jobs }

func (w *World) fresh() uint64 { w.nextID++; return w.nextID }

func (w *World) chance(perMille int) bool { return w.rng.IntN(1000) < perMille }

func (w *World) say(format string, args ...any) {
	w.Trace = append(w.Trace, fmt.Sprintf("%10s ", w.now)+fmt.Sprintf(format, args...))
}

func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s: %s", w.now, fmt.Sprintf(format, args...))
	}
}

func (w *World) schedule(e event) { heap.Push(&w.queue, e) }

func (w *World) at(delay time.Duration, to *worker, do func()) {
	w.order++
	w.schedule(event{at: w.now + delay, order: w.order, to: to, do: do})
}

// strike lets something go wrong, now and then.
func (w *World) strike() {
	if !w.chance(8) {
		return
	}
	v := w.workers[w.rng.IntN(len(w.workers))]
	switch w.rng.IntN(6) {
	case 0:
		if v.alive {
			w.crash(v)
		}
	case 1:
		if v.alive && v.run != 0 {
			w.Strikes.Panic++
			w.say("%s: handler panics", v.name)
			v.run = 0
			v.consumer.HandlerRestarted(w.now)
			w.settleWorker(v)
		}
	case 2:
		if w.chance(200) {
			w.Strikes.Pause++
			w.pausedUntil = w.now + time.Duration(w.rng.IntN(20))*time.Second
			w.say("the producer stands still until %s", w.pausedUntil)
		}
	case 3:
		if v.alive {
			w.Strikes.Drain++
			w.say("%s: drain", v.name)
			v.consumer.Drain(w.now)
			w.settleWorker(v)
		}
	case 4:
		if v.alive {
			w.Strikes.Silence++
			v.cutUntil = w.now + time.Duration(w.rng.IntN(12))*time.Second
			w.say("%s: cut off until %s", v.name, v.cutUntil)
		}
	case 5:
		if !v.alive {
			w.replace(v)
		}
	}
}

func (w *World) crash(v *worker) {
	w.Strikes.Crash++
	w.say("%s: crash", v.name)
	v.alive = false
	if w.chance(500) { // the held connection closes; else only the lease tells
		host := v.reg.Host
		w.at(time.Millisecond, nil, func() { w.producer.PeerLost(w.now, host); w.settleProducer() })
	}
}

// replace starts a new incarnation in the dead worker's place, at times under
// the same identity.
func (w *World) replace(v *worker) {
	w.Strikes.Restart++
	for i := range w.workers {
		if w.workers[i] == v {
			w.workers[i] = w.spawn(v.name)
		}
	}
}

func (w *World) revive() {
	w.pausedUntil = 0
	for _, v := range w.workers {
		v.cutUntil = 0
		if !v.alive || v.consumer.Status().Draining {
			v.alive = false
			w.replace(v)
		}
	}
}
