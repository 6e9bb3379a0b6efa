// Package sim runs the two controllers of workpull/internal/core against a
// network, workers, a producer actor and a durable queue that misbehave, all
// from one seed. No goroutine runs and no clock is read: the same seed is the
// same history.
//
// The world keeps books of its own on what the controllers said and were told,
// and holds them to the invariants after every step (judge.go); the
// controllers' own sums are counted again every few steps (core's Check).
package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// Options are what a run is made of.
type Options struct {
	Seed          uint64
	Workers, Jobs int
	// Local workers of these run beside the producer: their messages are not
	// lost, and they are watched instead of probed.
	Local           int
	Window, Credits int
	StoreAhead      int
	Attempts        int
	Packed          bool
	Queue           queueMode
	Abilities
	Faulty   time.Duration // faults strike for so long; then every job has to be done
	Work     time.Duration // a usual job takes up to this
	Burst    int           // so many jobs are there at once
	Only     map[Key]bool  // these faults only; nil is all
	sabotage func(*World)  // a test's own invariant
	stopAt   time.Duration // not played beyond; 0 is to the end
}

// OptionsFor is the run that belongs to a seed.
func OptionsFor(seed uint64) Options {
	d := draw(seed, Key{Place: placeConfig})
	o := Options{
		Seed: seed, Workers: 1 + int(d.below(8)), Local: int(d.below(2) * d.below(3)),
		Window: []int{1, 2, 7, 50}[d.below(4)], Credits: []int{1, 1, 8}[d.below(3)],
		StoreAhead: []int{0, 20, 100}[d.below(3)], Attempts: []int{0, 1, 3}[d.below(3)], Packed: d.below(4) == 0,
		Faulty: time.Minute, Burst: []int{1, 10, 60}[d.below(3)],
	}
	// Short jobs show the flow, jobs about as long as a lease what happens to
	// those that run while their worker's binding ends.
	pace := d.below(5)
	o.Work = []time.Duration{2, 50, 400, 12_000, 30_000}[pace] * time.Millisecond
	o.Jobs = []int{800, 600, 400, 60, 40}[pace]
	o.Queue = queueMode(d.below(uint64(queueModes)))
	o.Abilities = abilitiesFor(seed, o.Queue)
	if d.below(16) == 0 { // enough for the controller to close the holes that endings leave
		o.Workers = 40
	}
	return o
}

const (
	retryInterval  = 500 * time.Millisecond
	resendInterval = 2 * time.Second
	lease          = 6 * time.Second
	firstBackoff   = 200 * time.Millisecond
	lastBackoff    = 5 * time.Second
	// calmLimit bounds, in simulated time, how long it may take until
	// everything is done once faults have stopped, besides the work itself
	// on a single worker.
	calmLimit = 2 * time.Minute
	// recountEvery is how many steps lie between two full recounts.
	recountEvery = 48
	// progress is the one invariant that looks at the whole run.
	progress = "progress once faults stop"
)

// Broken is an invariant that did not hold.
type Broken struct {
	Invariant string
	At        time.Duration
	What      string
}

func (b *Broken) Error() string { return fmt.Sprintf("at %s: %s: %s", b.At, b.Invariant, b.What) }

// World is one run.
type World struct {
	opt    Options
	now    time.Duration
	agenda agenda
	order  uint64
	spare  []*message
	// Steps counts the events that reached a controller or an actor.
	Steps int
	// Count tells how often each kind of fault struck, Seen how often what
	// follows from faults was seen.
	Count [faultKinds]int
	Seen  [sights]int
	// Faults lists those that struck, in order.
	Faults []Fault
	// Trace is what happened, where it was asked for.
	Trace []string

	tracing  bool
	faults   bool
	rate     [faultKinds]uint64
	counters []uint32
	broken   *Broken
	digest   uint64
	calmAt   time.Duration
	calmDue  time.Duration

	producer
	lane
	slots      []int32    // the process of each worker slot
	processes  []*process // every worker incarnation that ever was
	ghosts     []int32    // those that live beside their slot's
	addresses  []int32    // the process that lives there
	hosts      []int32    // the host of each address
	lastHost   int32
	identities []identity
	bindings   []*binding // by binding id - 1; nil where none came of it
	jobs       []job
	undone     int // jobs submitted and neither confirmed nor dropped
}

// Run plays a run. The error is the first invariant that broke, a *Broken.
func Run(opt Options) (*World, error) { return run(opt, false) }

func run(opt Options, tracing bool) (*World, error) {
	w := &World{
		opt: opt, tracing: tracing, faults: opt.Faulty > 0,
		counters: make([]uint32, placeSlots+perSlot*opt.Workers), slots: make([]int32, opt.Workers),
		jobs: make([]job, 0, opt.Jobs),
	}
	w.swarm()
	if err := w.startProducer(); err != nil {
		return w, err
	}
	for slot := range w.slots {
		w.start(int32(slot), w.newIdentity(int32(slot)), w.newAddress())
	}
	if w.faults {
		w.nextStrike()
	}
	w.play()
	if w.broken != nil {
		return w, w.broken
	}
	return w, nil
}

func (w *World) play() {
	for w.broken == nil {
		if w.faults && w.now >= w.opt.Faulty {
			w.calm()
		}
		if !w.faults && w.submitted == w.opt.Jobs && w.undone == 0 {
			w.recount()
			return
		}
		if w.opt.stopAt > 0 && w.now > w.opt.stopAt {
			return
		}
		e := w.agenda.pop()
		if w.now = e.at; w.calmDue > 0 && w.now > w.calmDue {
			w.fail(progress, "%d jobs are not done %s after faults stopped: %s", w.undone, w.now-w.calmAt, w.backlog())
			return
		}
		if until, waits := w.stands(&e); waits {
			e.at = until
			w.agenda.push(e)
			continue
		}
		if e.party < 0 || w.processes[e.party].alive {
			w.Steps++
			w.digest = w.digest*0x100000001b3 ^ uint64(e.at)<<8 ^ uint64(e.kind)
			w.do(&e)
			if w.opt.sabotage != nil {
				w.opt.sabotage(w)
			}
			if w.Steps%recountEvery == 0 {
				w.recount()
			}
		}
		w.over(e.message)
	}
}

// stands tells whether the event's party is kept from running, and until when:
// what comes for it waits in its mailbox.
func (w *World) stands(e *event) (time.Duration, bool) {
	until := time.Duration(0)
	switch {
	case e.party >= 0:
		until = w.processes[e.party].pausedUntil
	case e.party == producerParty:
		until = w.pausedUntil
	}
	return until, w.now < until
}

func (w *World) do(e *event) {
	switch e.kind {
	case strike:
		w.strike()
	case release:
		w.release(int32(e.arg))
	case restart:
		w.restartAs(int32(e.arg))
	case endGhost:
		w.endGhost(int32(e.arg))
	case reachQueue:
		w.reachQueue(int(e.arg))
	case respawn:
		w.respawn(e.arg)
	default:
		if e.party == producerParty {
			w.atProducer(e)
			w.settleProducer()
			return
		}
		v := w.processes[e.party]
		w.atWorker(v, e)
		w.settleWorker(v)
	}
}

func (w *World) say(format string, args ...any) {
	w.Trace = append(w.Trace, fmt.Sprintf("%11s  ", w.now)+fmt.Sprintf(format, args...))
}

// fail notes the first invariant that broke.
func (w *World) fail(invariant, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Broken{Invariant: invariant, At: w.now, What: fmt.Sprintf(format, args...)}
		if w.tracing {
			w.say("BROKEN %s: %s", invariant, w.broken.What)
		}
	}
}

// calm ends the faults: whoever stands still goes on, who is gone comes back,
// and whoever would never finish is replaced.
func (w *World) calm() {
	w.faults = false
	if w.tracing {
		w.say("faults stop")
	}
	w.pausedUntil = 0
	for _, ghost := range w.ghosts {
		w.kill(w.processes[ghost])
	}
	for slot, at := range w.slots {
		v := w.processes[at]
		v.pausedUntil, v.cutUntil = 0, 0
		if v.alive && (v.stuck || v.consumer.Status().Draining) {
			w.kill(v)
		}
		if !v.alive {
			w.start(int32(slot), w.newIdentity(int32(slot)), w.newAddress())
		}
	}
	for i := range w.identities {
		w.release(int32(i))
	}
	w.calmAt = w.now
	w.calmDue = w.now + calmLimit + time.Duration(w.undone+w.opt.Jobs-w.submitted)*w.opt.Work
}

// identity is what tells a worker endpoint from all others.
type identity struct {
	name    string
	binding *binding // the one that it has
	retired bool
}

func (w *World) newIdentity(slot int32) int32 {
	w.identities = append(w.identities, identity{name: "w" + strconv.Itoa(int(slot)) + "#" + strconv.Itoa(len(w.identities))})
	return int32(len(w.identities) - 1)
}

// newAddress is one where nobody lives yet, at a host of its own.
func (w *World) newAddress() int32 {
	w.lastHost++
	return w.newAddressAt(w.lastHost)
}

// newAddressAt is one at a host that there is already.
func (w *World) newAddressAt(host int32) int32 {
	w.addresses, w.hosts = append(w.addresses, -1), append(w.hosts, host)
	return int32(len(w.addresses) - 1)
}

func hostName(host int32) string { return "host" + strconv.Itoa(int(host)) }

// peerOf is an address as a controller writes it.
func peerOf(address int32) core.Peer { return core.Peer("at" + strconv.Itoa(int(address))) }

// addressOf reads it back.
func addressOf(p core.Peer) int32 {
	n, err := strconv.Atoi(string(p[2:]))
	if err != nil {
		return -1
	}
	return int32(n)
}

// living is the process at an address, or nil.
func (w *World) living(address int32) *process {
	if p := w.addresses[address]; p >= 0 && w.processes[p].alive {
		return w.processes[p]
	}
	return nil
}

func (w *World) backlog() string {
	s := w.core.Snapshot(w.now)
	return fmt.Sprintf("waiting %d, in flight %d, delayed %d, dead %d, workers %+v", s.Waiting, s.InFlight, s.Delayed, s.Dead, s.Workers)
}
