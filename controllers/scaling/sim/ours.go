package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/workpull/operator/controllers/scaling"
)

// ours is a pool under Decide.
type ours struct {
	drain, idle time.Duration // targetDrainSeconds and idleTimeoutSeconds
	most        int           // maxReplicas

	// delay is how old a snapshot is when it is decided on, and hop how long
	// each further message takes: retire, its confirmation, the delete.
	delay, hop time.Duration
	// unasked deletes victims without retiring them first. It is there to show
	// what that would do.
	unasked bool
	// spread dispatch instead of packed, to show what that would do.
	spread bool

	world   *world
	meter   meter
	history scaling.History
	last    time.Duration // arrival
	victims int           // who were retired and deleted
	refused int           // who held a job by then, and were released
}

// begin has the producer push a snapshot every second, and at once when there
// comes to be work or none is left.
func (o *ours) begin(w *world) {
	o.world = w
	w.packed = !o.spread
	w.done = o.meter.done
	push := func() {
		s, seen := o.snapshot()
		w.at(w.now+o.delay, func() { o.decide(s, seen) })
	}
	w.changed = push
	w.every(0, time.Second, push)
}

// seen is what a snapshot says about one worker.
type seen struct {
	held int
	free time.Duration
}

var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func (o *ours) snapshot() (scaling.Snapshot, map[int]seen) {
	w := o.world
	running, waiting, none := int64(w.busy), int64(len(w.queue)), int64(0)
	workers := make(map[int]seen, len(w.pods))
	for _, p := range w.pods {
		if p.ready {
			workers[p.id] = seen{len(p.running), p.free}
		}
	}
	if waiting > 0 {
		o.last = w.jobs[w.queue[len(w.queue)-1]].arrival
	}
	s := o.meter.snapshot(w.now, len(w.jobs)-w.left+w.busy+len(w.queue))
	s.Waiting, s.Running, s.Buffered = &waiting, &running, &none
	if o.last > 0 {
		last := epoch.Add(o.last)
		s.LastArrival = &last
	}
	return s, workers
}

func (o *ours) decide(s scaling.Snapshot, workers map[int]seen) {
	w := o.world
	now := epoch.Add(w.now)
	s.At = now
	pool := scaling.Pool{Name: "pool", Slots: w.slots, Autoscaling: &scaling.Autoscaling{
		MaxReplicas: o.most, TargetDrain: o.drain, IdleTimeout: o.idle}}
	for _, p := range w.pods {
		worker := scaling.Worker{Name: strconv.Itoa(p.id), Phase: scaling.Starting, Since: epoch.Add(p.created), Retiring: p.retired}
		switch {
		case p.stopped:
			worker.Phase = scaling.Terminating
		case p.ready:
			worker.Phase = scaling.Ready
		}
		if at, ok := workers[p.id]; ok {
			worker.Held = &at.held
			if at.held == 0 {
				since := epoch.Add(at.free)
				worker.IdleSince = &since
			}
		}
		pool.Workers = append(pool.Workers, worker)
	}
	decisions, history := scaling.Decide(scaling.ProducerState{Snapshot: &s, History: o.history}, []scaling.Pool{pool}, now)
	o.history = history
	d := decisions[0]
	w.create(d.Create)
	for _, name := range d.Victims {
		at := slices.IndexFunc(pool.Workers, func(worker scaling.Worker) bool { return worker.Name == name })
		o.retire(w.pods[at])
	}
}

// retire asks the producer to grant the worker nothing more, and deletes the pod
// once the producer confirms that it holds nothing.
func (o *ours) retire(p *pod) {
	w := o.world
	if p.retired {
		return // it was asked already
	}
	p.retired = true
	w.at(w.now+o.hop, func() {
		if p.stopped {
			return
		}
		if len(p.running) > 0 && !o.unasked {
			o.refused++
			p.retired = false
			return
		}
		p.closed = !o.unasked
		w.at(w.now+2*o.hop, func() {
			o.victims++
			w.stop(p, 0)
		})
	})
}

// meter is how a producer measures its rates: over the last minute.
type meter struct {
	samples []sample
	total   sample
}

// sample is what had happened until a time.
type sample struct {
	at             time.Duration
	arrived, done  int
	took, tookTwos float64 // seconds of slot time, and its squares
}

const meterWindow = time.Minute

func (m *meter) done(length time.Duration) {
	m.total.done++
	m.total.took += length.Seconds()
	m.total.tookTwos += length.Seconds() * length.Seconds()
}

func (m *meter) snapshot(now time.Duration, arrived int) scaling.Snapshot {
	m.total.at, m.total.arrived = now, arrived
	m.samples = append(m.samples, m.total)
	for m.samples[0].at < now-meterWindow {
		m.samples = m.samples[1:]
	}
	var s scaling.Snapshot
	old := m.samples[0]
	span := (now - old.at).Seconds()
	if span < 1 {
		return s
	}
	arrivals, service := float64(arrived-old.arrived)/span, float64(m.total.done-old.done)/span
	s.ArrivalRate, s.ServiceRate = &arrivals, &service
	if n := float64(m.total.done - old.done); n > 0 {
		took := m.total.took - old.took
		mean := time.Duration(took / n * float64(time.Second))
		residual := time.Duration((m.total.tookTwos - old.tookTwos) / (2 * took) * float64(time.Second))
		s.JobTime, s.Residual = &mean, &residual
	}
	return s
}
