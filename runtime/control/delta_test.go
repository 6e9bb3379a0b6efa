package control

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/workpull/operator/runtime/control/controlpb"
)

func drawKnown[T comparable](t *rapid.T, name string, from *rapid.Generator[T]) Known[T] {
	if rapid.Bool().Draw(t, name+" is known") {
		return Some(from.Draw(t, name))
	}
	return Known[T]{}
}

func drawSnapshot(t *rapid.T) *Snapshot {
	number := rapid.IntRange(0, 3)
	count := rapid.Uint64Range(0, 3)
	rate := rapid.Float64Range(0, 10)
	moment := rapid.Custom(func(t *rapid.T) time.Time { return time.UnixMilli(rapid.Int64Range(0, 3).Draw(t, "ms")) })
	s := &Snapshot{State: State{
		At: drawKnown(t, "at", moment), Session: drawKnown(t, "session", count), Epoch: drawKnown(t, "epoch", count),
		Waiting: drawKnown(t, "waiting", number), Buffered: drawKnown(t, "buffered", number), Running: drawKnown(t, "running", number),
		Delayed: drawKnown(t, "delayed", number), Dead: drawKnown(t, "dead", number),
		ArrivalRate: drawKnown(t, "arrivals", rate), ServiceRate: drawKnown(t, "services", rate),
		OldestAge: drawKnown(t, "oldest", rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 3).Draw(t, "ms")) * time.Millisecond
		})),
		Accepted: drawKnown(t, "accepted", count), Confirmed: drawKnown(t, "confirmed", count), Requeued: drawKnown(t, "requeued", count),
		Rejected: drawKnown(t, "rejected", count), Recalled: drawKnown(t, "recalled", count),
	}}
	flag := rapid.Bool()
	name := rapid.SampledFrom([]string{"", "a", "b"})
	for _, identity := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 10, rapid.ID).Draw(t, "identities") {
		w := Worker{
			Identity: fmt.Sprintf("uid-%02d/n/0", identity), Pod: name.Draw(t, "pod"), Host: name.Draw(t, "host"), RunningID: name.Draw(t, "job"),
			Demand: drawKnown(t, "demand", number), Held: drawKnown(t, "held", number), RunningAttempt: drawKnown(t, "attempt", number),
			RunningSince: drawKnown(t, "running since", moment), IdleSince: drawKnown(t, "idle since", moment), BoundSince: drawKnown(t, "bound since", moment),
			Suspended: drawKnown(t, "suspended", flag), Draining: drawKnown(t, "draining", flag), Retired: drawKnown(t, "retired", flag), Uncertain: drawKnown(t, "uncertain", flag),
		}
		s.Workers = append(s.Workers, w)
	}
	sortWorkers(s.Workers)
	return s
}

// compare tells what differs between two snapshots.
func compare(want, got *Snapshot) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true }))
}

// overTheWire brings a delta to an assembly as bytes.
func overTheWire(a *assembly, d *delta, version, base uint64) (*Snapshot, error) {
	var got *Snapshot
	for u := range d.updates(version, base) {
		raw, err := proto.Marshal(u)
		if err != nil {
			return nil, err
		}
		received := &controlpb.Update{}
		if err := proto.Unmarshal(raw, received); err != nil {
			return nil, err
		}
		if got, err = a.add(received); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// Whatever a state and the next are, what is sent of the next leads from the one
// to the other, and a value that is absent stays absent (S26).
func TestDeltasLeadToTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a assembly
		var from *Snapshot
		for version := uint64(1); version <= 4; version++ {
			to := drawSnapshot(t)
			d := diff(from, to)
			got, err := overTheWire(&a, &d, version, max(version, 1)-1)
			if err != nil {
				t.Fatal(err)
			}
			if difference := compare(to, got); difference != "" {
				t.Fatalf("version %d (-want +got):\n%s", version, difference)
			}
			if again := diff(to, got); len(again.changed)+len(again.gone) != 0 {
				t.Fatalf("what is the same differs: %+v", again)
			}
			from = to
		}
	})
}

// pool of n workers, each busy with a job.
func manyWorkers(n int) *Snapshot {
	s := &Snapshot{State: State{At: Some(time.UnixMilli(1_800_000_000_000)), Session: Some(uint64(1) << 63), Waiting: Some(0)}}
	for i := range n {
		s.Workers = append(s.Workers, Worker{
			Identity: fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%012d/ABCDEFGHIJ/0", i), Pod: fmt.Sprintf("emails-workers-%d", i), Host: "10.244.117.203:9000",
			Demand: Some(49), Held: Some(1), RunningID: fmt.Sprintf("order-2026-11-30-%08d", i), RunningAttempt: Some(1),
			RunningSince: Some(time.UnixMilli(1_800_000_000_000)), BoundSince: Some(time.UnixMilli(1_800_000_000_000)),
			Suspended: Some(false), Draining: Some(false), Retired: Some(false), Uncertain: Some(false),
		})
	}
	return s
}

// A state that does not fit one message comes in several, and no message is
// larger than both ends allow.
func TestALargePoolComesInParts(t *testing.T) {
	want := manyWorkers(20_000)
	d := diff(nil, want)
	messages := 0
	for u := range d.updates(1, 0) {
		messages++
		require.Less(t, proto.Size(u), maxMessage/2)
	}
	require.Greater(t, messages, 2)
	var a assembly
	got, err := overTheWire(&a, &d, 1, 0)
	require.NoError(t, err)
	require.Equal(t, want, got)

	d = diff(want, &Snapshot{State: want.State})
	got, err = overTheWire(&a, &d, 2, 1)
	require.NoError(t, err)
	require.Empty(t, got.Workers)
}

func TestAssemblyRefuses(t *testing.T) {
	v := func(n uint64) *uint64 { return &n }
	whole := func(version uint64) *controlpb.Update {
		return &controlpb.Update{Version: v(version), State: &controlpb.State{}, Workers: []*controlpb.Worker{{Identity: "a"}, {Identity: "b"}}}
	}
	for name, test := range map[string]struct {
		updates []*controlpb.Update
		want    string
	}{
		"no version":                    {[]*controlpb.Update{{}}, "no version"},
		"no state":                      {[]*controlpb.Update{{Version: v(1)}}, "no state"},
		"a change to what is not known": {[]*controlpb.Update{whole(1), {Version: v(3), Base: v(2), State: &controlpb.State{}}}, "changes version 2, and what is known is version 1"},
		"a change at first":             {[]*controlpb.Update{{Version: v(3), Base: v(2), State: &controlpb.State{}}}, "what is known is version 0"},
		"two versions at once":          {[]*controlpb.Update{{Version: v(1), More: true}, whole(2)}, "amid those of version 1"},
		"workers out of order":          {[]*controlpb.Update{{Version: v(1), Workers: []*controlpb.Worker{{Identity: "b"}, {Identity: "a"}}}}, `worker "a" out of order`},
		"out of order over two":         {[]*controlpb.Update{{Version: v(1), More: true, Workers: []*controlpb.Worker{{Identity: "b"}}}, whole(1)}, `worker "a" out of order`},
		"a worker without a name":       {[]*controlpb.Update{{Version: v(1), Workers: []*controlpb.Worker{{}}}}, "out of order"},
		"gone out of order":             {[]*controlpb.Update{{Version: v(1), Gone: []string{"b", "b"}}}, `worker "b", which is gone, out of order`},
	} {
		t.Run(name, func(t *testing.T) {
			var a assembly
			var err error
			for _, u := range test.updates {
				require.NoError(t, err)
				_, err = a.add(u)
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

// A number that makes no sense is not known, rather than some other number.
func TestNonsenseIsNotKnown(t *testing.T) {
	large, negative, huge := ^uint64(0), -1.0, math.Inf(1)
	s := decodeState(&controlpb.State{Waiting: &large, OldestAgeMs: &large, ArrivalRate: &negative, ServiceRate: &huge})
	require.Equal(t, State{}, s)
	require.Nil(t, encodeState(&State{Waiting: Some(-1)}).Waiting)
}

func BenchmarkSnapshotOf10000Workers(b *testing.B) {
	s := manyWorkers(10_000)
	bytes := 0
	for b.Loop() {
		d := diff(nil, s)
		bytes = 0
		for u := range d.updates(1, 0) {
			raw, err := proto.Marshal(u)
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(raw)
		}
	}
	b.ReportMetric(float64(bytes), "wire-bytes")
}

// One worker in ten has another job.
func BenchmarkDeltaOf10000Workers(b *testing.B) {
	from, to := manyWorkers(10_000), manyWorkers(10_000)
	for i := 0; i < len(to.Workers); i += 10 {
		to.Workers[i].RunningID = "another"
	}
	bytes := 0
	for b.Loop() {
		d := diff(from, to)
		bytes = 0
		for u := range d.updates(2, 1) {
			raw, err := proto.Marshal(u)
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(raw)
		}
	}
	b.ReportMetric(float64(bytes), "wire-bytes")
}
