package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// keda is a Deployment under KEDA and the HorizontalPodAutoscaler that KEDA
// makes, as both document themselves and as kube-controller-manager 1.37 does it.
//
// KEDA looks every poll: at zero replicas with a metric above zero it sets one,
// and with a metric that was zero for the whole cooldown it sets zero. In
// between the HPA decides at each sync, by the AverageValue of the jobs that
// wait or run, with a tolerance of 10%, and lets at most double or add 4 pods in
// 15 s.
type keda struct {
	poll, cooldown time.Duration
	sync           time.Duration // --horizontal-pod-autoscaler-sync-period
	stabilization  time.Duration // behavior.scaleDown.stabilizationWindowSeconds
	target         float64       // AverageValue: jobs for each pod
	unlimited      bool          // behavior.scaleUp without a limit
	most           int           // maxReplicaCount
	grace          time.Duration // terminationGracePeriodSeconds

	world    *world
	random   *rand.Rand
	replicas int           // spec.replicas
	active   time.Duration // when the metric was last above zero
	wanted   []count       // recommendations of the HPA
	changes  []count       // of spec.replicas, by the HPA
}

func (k *keda) begin(w *world) {
	k.world = w
	k.random = rand.New(rand.NewPCG(seed, 99))
	// What both do has no relation to the trace.
	w.every(time.Duration(k.random.Float64()*float64(k.poll)), k.poll, k.look)
	w.every(time.Duration(k.random.Float64()*float64(k.sync)), k.sync, k.autoscale)
}

func (k *keda) metric() int { return len(k.world.queue) + k.world.busy }

func (k *keda) look() {
	switch {
	case k.metric() > 0:
		k.active = k.world.now
		if k.replicas == 0 {
			k.scale(1)
		}
	case k.replicas > 0 && k.world.now-k.active >= k.cooldown:
		k.scale(0)
	}
}

func (k *keda) autoscale() {
	if k.replicas == 0 {
		return // the HPA is off
	}
	now, current := k.world.now, k.replicas
	wanted := current
	if ratio := float64(k.metric()) / (k.target * float64(current)); math.Abs(ratio-1) > 0.1 {
		wanted = int(math.Ceil(float64(k.metric()) / k.target))
	}
	// Stabilization looks at what was recommended, before any limit.
	highest := wanted
	k.wanted = slices.DeleteFunc(k.wanted, func(c count) bool { return c.at <= now-k.stabilization })
	for _, c := range k.wanted {
		highest = max(highest, c.pods)
	}
	k.wanted = append(k.wanted, count{now, wanted})
	stable := max(min(current, highest), wanted)
	if stable > current && !k.unlimited {
		stable = min(stable, k.upLimit(current))
	}
	stable = min(max(stable, 1), k.most)
	if stable != current {
		k.changes = append(k.changes, count{now, stable - current})
	}
	k.scale(stable)
}

func (k *keda) upLimit(current int) int {
	before := current
	for _, c := range k.changes {
		if c.at > k.world.now-15*time.Second {
			before -= c.pods
		}
	}
	return max(current, before+4, 2*before)
}

// scale has the Deployment's ReplicaSet follow: it removes pods that are not
// ready first, then those ready for less time by orders of magnitude of two,
// and among equals any. Who works it does not know.
func (k *keda) scale(replicas int) {
	k.replicas = replicas
	w := k.world
	live := slices.DeleteFunc(slices.Clone(w.pods), func(p *pod) bool { return p.stopped })
	if replicas >= len(live) {
		w.create(replicas - len(live))
		return
	}
	k.random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	slices.SortStableFunc(live, func(a, b *pod) int { return cmp.Compare(k.rank(a), k.rank(b)) })
	for _, p := range live[:len(live)-replicas] {
		w.stop(p, k.grace)
	}
}

func (k *keda) rank(p *pod) int {
	if !p.ready {
		return -1
	}
	return int(math.Log2(float64(k.world.now-p.created-k.world.start) + 1))
}
