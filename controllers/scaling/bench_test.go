package scaling

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// tenThousand is a producer with 10,000 workers in ten pools, of whom a third
// are idle and may go.
func tenThousand(now time.Time) (ProducerState, []Pool) {
	var pools []Pool
	busy := int64(0)
	for p := range 10 {
		pool := Pool{Name: fmt.Sprint("pool", p), Weight: int32(p / 2), Slots: 1,
			Autoscaling: &Autoscaling{MaxReplicas: 2000, TargetDrain: 30 * time.Second, IdleTimeout: time.Minute}}
		for i := range 1000 {
			w := Worker{Name: fmt.Sprintf("pool%d-%d", p, i), Phase: Ready, Since: now.Add(-time.Hour)}
			if i%3 == 0 {
				w.Held, w.IdleSince = some(0), some(now.Add(-time.Duration(i*7919%1000+60)*time.Second))
			} else {
				w.Held = some(1)
				busy++
			}
			pool.Workers = append(pool.Workers, w)
		}
		pools = append(pools, pool)
	}
	return ProducerState{Snapshot: &Snapshot{At: now, Waiting: some(int64(0)), Buffered: some(int64(0)), Running: some(busy)}}, pools
}

// The bar is 5 ms for a decision from a snapshot of 10,000 workers.
func BenchmarkDecide10000Workers(b *testing.B) {
	for _, waiting := range []int64{0, 5000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			producer, pools := tenThousand(noon)
			_, producer.History = Decide(producer, pools, noon.Add(-2*time.Minute))
			producer.Snapshot.Waiting = &waiting
			b.ReportAllocs()
			named, began := 0, processorTime()
			for b.Loop() {
				decisions, _ := Decide(producer, pools, noon)
				for _, d := range decisions {
					named += len(d.Victims) + d.Create
				}
			}
			b.ReportMetric(float64(processorTime()-began)/float64(b.N), "cpu-ns/op")
			if named == 0 {
				b.Fatal("nothing was decided")
			}
		})
	}
}

// processorTime is what this process has used, which on a busy machine says
// more than the clock.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
