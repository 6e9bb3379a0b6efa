package workerpool

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
)

// createBatch bounds the pods made in one go, so that one large pool does not
// hold up the others.
const createBatch = 100

// plan is what to write, in this order.
type plan struct {
	accounts []apply.Observed // to apply
	prune    []client.Object  // accounts to delete
	revision *appsv1.ControllerRevision
	renumber bool // revision is stored already and becomes the newest again
	expired  []*appsv1.ControllerRevision

	delete []departure
	create []int // slots
	// missing is how many pods there are too few, before create.
	missing int
	// replaced: broken pods of the current template are among the deleted, so
	// the next ones wait.
	replaced bool

	// wake is when time alone changes what to do; zero for never.
	wake time.Time
}

// departure is a pod to delete and the reason, for the event.
type departure struct {
	worker
	why string
}

// Reasons of a departure.
const (
	becauseBroken   = "failed"
	becauseSurplus  = "not needed any more"
	becauseOutdated = "made from an older template"
)

// makePlan is pure: state → plan.
func makePlan(s state) plan {
	var p plan
	if len(s.invalid) > 0 || s.closing {
		return p
	}
	p.planRevisions(s)
	p.planAccounts(s)
	if !s.settled {
		return p // S8: our own last pod write is not in the cache yet
	}
	desired := int(*s.pool.Spec.Replicas)
	workers := p.replaceBroken(s)
	workers = p.scaleDown(workers, desired)
	if s.producer {
		workers = p.rollOut(workers, desired)
		p.scaleUp(s, desired-countPresent(workers))
	}
	p.planWake(s, workers)
	return p
}

func (p *plan) planRevisions(s state) {
	switch {
	case s.newRevision:
		p.revision = s.current
	case s.current.Revision < newestRevision(s.stored):
		p.revision, p.renumber = s.current, true // the template went back to an older one
	}
	if s.settled {
		p.expired = expiredRevisions(s.stored, s.current.Labels[v1alpha1.LabelRevision], s.workers, int(*s.pool.Spec.RevisionHistoryLimit))
	}
}

func (p *plan) planAccounts(s state) {
	for _, account := range s.accounts {
		if account.Wanted() {
			p.accounts = append(p.accounts, account)
		}
	}
	if !slices.ContainsFunc(s.workers, func(w worker) bool { return w.outdated }) {
		p.prune = s.leftovers // no pod runs as these any more
	}
}

// replaceBroken deletes pods that do no work, so that scaleUp makes others in
// their place. Those of an older template go at once; those of the current one
// when the backoff is over, and until then they count, so that a template that
// crashes does not multiply pods.
func (p *plan) replaceBroken(s state) []worker {
	open := !s.now.Before(s.replace.until)
	var rest []worker
	for _, w := range s.workers {
		replace := w.broken() && s.producer && (w.outdated || open)
		if !replace {
			rest = append(rest, w)
			continue
		}
		p.delete = append(p.delete, departure{w, becauseBroken})
		p.replaced = p.replaced || !w.outdated
	}
	return rest
}

// scaleDown deletes the surplus, least missed first. It returns who stays.
func (p *plan) scaleDown(workers []worker, desired int) []worker {
	surplus := countPresent(workers) - desired
	if surplus <= 0 {
		return workers
	}
	order := slices.Clone(workers)
	order = slices.DeleteFunc(order, func(w worker) bool { return !w.present() })
	slices.SortFunc(order, leavesBefore)
	for _, w := range order[:surplus] {
		p.delete = append(p.delete, departure{w, becauseSurplus})
	}
	return without(workers, order[:surplus])
}

// rollOut deletes pods of an older template: at once those that run nothing,
// the others one at a time, each after its predecessor's successor is ready.
func (p *plan) rollOut(workers []worker, desired int) []worker {
	var leave []worker
	for _, w := range workers {
		if w.outdated && w.replaceable() {
			leave = append(leave, w)
		}
	}
	if len(leave) == 0 && countPresent(workers) >= desired {
		leave = nextOutdated(workers)
	}
	for _, w := range leave {
		p.delete = append(p.delete, departure{w, becauseOutdated})
	}
	return without(workers, leave)
}

// nextOutdated picks the one outdated worker that may go now, if any: when all
// updated ones are ready. One that is unready itself goes first, so at most
// one worker is missing by our doing.
func nextOutdated(workers []worker) []worker {
	var outdated []worker
	for _, w := range workers {
		switch {
		case !w.present():
		case w.outdated:
			outdated = append(outdated, w)
		case w.class != ready:
			return nil // a successor is not ready yet
		}
	}
	if len(outdated) == 0 {
		return nil
	}
	slices.SortFunc(outdated, leavesBefore)
	return outdated[:1]
}

// scaleUp fills the lowest free slots. A terminating pod keeps its slot, and
// so does one that is deleted now.
func (p *plan) scaleUp(s state, missing int) {
	p.missing = max(0, missing)
	if p.missing == 0 || s.refusal != nil && s.now.Before(s.refusal.backoff.until) {
		return
	}
	taken := map[int]bool{}
	for _, w := range s.workers {
		taken[w.slot] = true
	}
	for slot := 0; len(p.create) < min(missing, createBatch); slot++ {
		if !taken[slot] && !s.blocked[slot] {
			p.create = append(p.create, slot)
		}
	}
}

// planWake finds the earliest moment at which time alone changes the plan.
func (p *plan) planWake(s state, workers []worker) {
	wakeAt := func(t time.Time) {
		if t.After(s.now) && (p.wake.IsZero() || t.Before(p.wake)) {
			p.wake = t
		}
	}
	if s.refusal != nil {
		wakeAt(s.refusal.backoff.until)
	}
	deadline := time.Duration(*s.pool.Spec.StartupDeadlineSeconds) * time.Second
	for _, w := range workers {
		if w.broken() {
			wakeAt(s.replace.until)
		}
		if w.class == starting {
			wakeAt(w.pod.CreationTimestamp.Add(deadline))
		}
	}
}

func countPresent(workers []worker) int {
	n := 0
	for _, w := range workers {
		if w.present() {
			n++
		}
	}
	return n
}

func without(workers, gone []worker) []worker {
	return slices.DeleteFunc(slices.Clone(workers), func(w worker) bool {
		return slices.ContainsFunc(gone, func(g worker) bool { return g.pod == w.pod })
	})
}
