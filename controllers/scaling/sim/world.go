package main

import (
	"container/heap"
	"time"
)

// world is pods, workers and jobs in virtual time. Time is since the begin.
type world struct {
	now    time.Duration
	events events
	made   int // events so far, which orders those of one instant

	start time.Duration // from a pod's creation until its worker takes jobs
	slots int           // jobs at once for each pod
	// packed dispatch takes the most recently used worker with a free slot
	// first, spread dispatch the one that has been free for longest.
	packed bool

	jobs  []job
	begun []time.Duration // of the run that finished, or of the last one
	queue []int           // waiting jobs, in order
	left  int             // jobs that are not done
	busy  int             // jobs that run
	pods  []*pod          // that have not ended

	// changed, if set, is told when there comes to be work and when there is
	// none any more; done when a job is.
	changed func()
	done    func(length time.Duration)

	podTime     time.Duration
	interrupted int
	created     int
	history     []count // how many pods there were, for the plot
}

type count struct {
	at   time.Duration
	pods int
}

// pod runs a worker.
type pod struct {
	id      int
	created time.Duration
	ready   bool
	closed  bool // is granted nothing more
	running []int
	free    time.Duration // when it last came to hold nothing
	used    time.Duration // when it was last granted a job or finished one
	stopped bool          // terminating
	ended   bool
	retired bool // by our operator
}

func newWorld(t *trace, start time.Duration) *world {
	w := &world{start: start, slots: 1, jobs: t.jobs, begun: make([]time.Duration, len(t.jobs)), left: len(t.jobs)}
	for i := range t.jobs {
		w.at(t.jobs[i].arrival, func() { w.arrive(i) })
	}
	return w
}

// run lets time pass until the given end and all work is done.
func (w *world) run(end time.Duration) {
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		if e.at > end && w.left == 0 {
			break
		}
		w.now = e.at
		e.do()
	}
	w.now = max(w.now, end)
	for len(w.pods) > 0 {
		w.finish(w.pods[0])
	}
}

func (w *world) arrive(i int) {
	w.queue = append(w.queue, i)
	first := len(w.queue)+w.busy == 1
	w.dispatch()
	if first && w.changed != nil {
		w.changed()
	}
}

// dispatch grants what waits to who is free.
func (w *world) dispatch() {
	for len(w.queue) > 0 {
		var best *pod
		for _, p := range w.pods {
			if !p.ready || p.closed || len(p.running) == w.slots {
				continue
			}
			if best == nil || w.packed == (p.used > best.used) {
				best = p
			}
		}
		if best == nil {
			return
		}
		i := w.queue[0]
		w.queue = w.queue[1:]
		best.running = append(best.running, i)
		best.used = w.now
		w.begun[i] = w.now
		w.busy++
		w.at(w.now+w.jobs[i].length, func() { w.complete(best, i) })
	}
}

func (w *world) complete(p *pod, i int) {
	if p.ended {
		return // it was interrupted
	}
	p.drop(i)
	p.used = w.now
	w.busy--
	w.left--
	if len(p.running) == 0 {
		p.free = w.now
		if p.stopped {
			w.finish(p)
		}
	}
	if w.done != nil {
		w.done(w.jobs[i].length)
	}
	w.dispatch()
	if w.busy+len(w.queue) == 0 && w.changed != nil {
		w.changed()
	}
}

func (p *pod) drop(job int) {
	for k, i := range p.running {
		if i == job {
			p.running = append(p.running[:k], p.running[k+1:]...)
			return
		}
	}
}

func (w *world) create(n int) {
	for range n {
		p := &pod{id: w.created, created: w.now}
		w.created++
		w.pods = append(w.pods, p)
		w.at(w.now+w.start, func() {
			if !p.ended && !p.stopped {
				p.ready, p.free, p.used = true, w.now, w.now
				w.dispatch()
			}
		})
	}
	if n > 0 {
		w.note()
	}
}

// stop deletes a pod: its worker takes nothing more, finishes what it runs
// within the grace period, and what then still runs is interrupted and begins
// again elsewhere.
func (w *world) stop(p *pod, grace time.Duration) {
	if p.stopped {
		return
	}
	p.stopped, p.closed = true, true
	if len(p.running) == 0 {
		w.finish(p)
		return
	}
	w.at(w.now+grace, func() {
		if p.ended {
			return
		}
		w.interrupted += len(p.running)
		w.busy -= len(p.running)
		w.queue = append(append([]int(nil), p.running...), w.queue...)
		w.finish(p)
		w.dispatch()
	})
}

func (w *world) finish(p *pod) {
	p.ended = true
	w.podTime += w.now - p.created
	for k, q := range w.pods {
		if q == p {
			w.pods = append(w.pods[:k], w.pods[k+1:]...)
			break
		}
	}
	w.note()
}

func (w *world) note() {
	if n := len(w.history); n > 0 && w.history[n-1].at == w.now {
		w.history[n-1].pods = len(w.pods)
		return
	}
	w.history = append(w.history, count{w.now, len(w.pods)})
}

// waits are how long each job waited until the run began that finished it.
func (w *world) waits() []time.Duration {
	out := make([]time.Duration, len(w.jobs))
	for i := range w.jobs {
		out[i] = w.begun[i] - w.jobs[i].arrival
	}
	return out
}

// at has something done at a time that is not past.
func (w *world) at(t time.Duration, do func()) {
	heap.Push(&w.events, event{t, w.made, do})
	w.made++
}

// every has something done again and again, as long as there is time.
func (w *world) every(first, period time.Duration, do func()) {
	w.at(first, func() {
		do()
		w.every(w.now+period, period, do)
	})
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

// events is a heap.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
