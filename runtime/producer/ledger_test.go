package producer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/workpull"
)

// finish takes a job through to its end.
func finish(t *testing.T, l *ledger, token uint64, id string) {
	t.Helper()
	r, known, err := l.submit(id, &jobpb.Job{})
	require.NoError(t, err)
	require.False(t, known)
	require.Same(t, r, l.offer(token))
	l.answer(token)
	l.accept(token)
	<-r.settled
	require.Equal(t, accepted, l.leave(r).phase)
	l.confirm(id)
}

func TestFinishedJobsAreForgottenByAgeAndCount(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	l := newLedger(clock, 10, false)
	l.enter(1)
	finish(t, l, 1, "old")
	clock.SetTime(clock.Now().Add(finishedAge - time.Second))
	finish(t, l, 2, "young")
	_, ok := l.find("old")
	require.True(t, ok)
	clock.SetTime(clock.Now().Add(time.Second))
	_, ok = l.find("old")
	require.False(t, ok)
	_, ok = l.find("young")
	require.True(t, ok)

	for i := range maxFinished {
		finish(t, l, uint64(3+i), fmt.Sprintf("job-%d", i))
	}
	_, ok = l.find("young")
	require.False(t, ok)
	require.Len(t, l.records, maxFinished)
	require.Zero(t, l.unfinished())
}

// Rule 9: an answered credit gets no other job, whenever its request is
// repeated; rule 5: until it is stored it gets the same one again.
func TestCreditIsAnsweredOnce(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 10, false)
	l.enter(1)
	first, _, err := l.submit("first", &jobpb.Job{})
	require.NoError(t, err)
	_, _, err = l.submit("second", &jobpb.Job{})
	require.NoError(t, err)
	require.Same(t, first, l.offer(7))
	l.answer(7)
	again, old := l.repeated(7)
	require.True(t, old)
	require.Same(t, first, again)
	l.accept(7)
	again, old = l.repeated(7)
	require.True(t, old)
	require.Nil(t, again)
	_, old = l.repeated(8)
	require.False(t, old)
}

// A controller that was restarted has forgotten what it had accepted.
func TestRestartOfTheControllerLosesWhatItAccepted(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 10, false)
	require.Zero(t, l.enter(1))
	for token, id := range []string{"stored", "offered", "queued"} {
		_, _, err := l.submit(id, &jobpb.Job{})
		require.NoError(t, err)
		if id != "queued" {
			require.NotNil(t, l.offer(uint64(token)))
			l.answer(uint64(token))
		}
	}
	l.accept(0)
	require.Equal(t, 1, l.enter(2))
	require.EqualValues(t, 1, l.losses())
	_, ok := l.find("stored")
	require.False(t, ok)
	require.Equal(t, "offered", l.offer(1).id, "what was not stored is offered again, first")
	require.Equal(t, "queued", l.offer(2).id)
}

// A job whose client has gone before it was offered was never promised.
func TestJobOfAClientThatLeft(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 1, false)
	l.enter(1)
	r, _, err := l.submit("a", &jobpb.Job{})
	require.NoError(t, err)
	_, _, err = l.submit("b", &jobpb.Job{})
	require.ErrorIs(t, err, errFull)
	require.Equal(t, refused, l.leave(r).phase)
	require.Nil(t, l.offer(1))
	b, _, err := l.submit("b", &jobpb.Job{})
	require.NoError(t, err)
	require.Same(t, b, l.offer(1))
	require.Equal(t, offered, l.leave(b).phase, "one that was offered is on its way")
	l.accept(1)
	require.Equal(t, 1, l.unfinished())
}

// Jobs at workers do not wait.
func TestLimitCountsWhatWaits(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 1, false)
	_, _, err := l.submit("a", &jobpb.Job{})
	require.NoError(t, err)
	require.True(t, l.full())
	l.observe(workpull.Snapshot{InFlight: 1})
	require.False(t, l.full())
	_, _, err = l.submit("b", &jobpb.Job{})
	require.NoError(t, err)
	_, _, err = l.submit("c", &jobpb.Job{})
	require.ErrorIs(t, err, errFull)
}

// A durable queue has what the last session accepted: nothing is lost, and the
// notice that such a job is done counts, as do jobs from before this process.
func TestDurableLedgerLosesNothing(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 3, true)
	require.Zero(t, l.enter(1))
	l.observe(workpull.Snapshot{Waiting: 1, Delayed: 1, Dead: 7, InFlight: 4})
	require.False(t, l.full(), "of 13 jobs from before two wait")
	r, known, err := l.submit("new", &jobpb.Job{})
	require.NoError(t, err)
	require.False(t, known)
	_, _, err = l.submit("surplus", &jobpb.Job{})
	require.ErrorIs(t, err, errFull, "the backlog counts")
	require.Same(t, r, l.offer(1))
	l.answer(1)
	l.accept(1)
	l.observe(workpull.Snapshot{Waiting: 2, Delayed: 1, Dead: 7, InFlight: 4})
	require.True(t, l.full(), "a job that is known here is not counted twice")

	require.Zero(t, l.enter(2), "the controller begins anew and has it still")
	require.Zero(t, l.losses())
	require.True(t, l.full())
	_, ok := l.find("new")
	require.False(t, ok, "the controller is asked about it")
	l.confirm("new")
	l.confirm("from before")
	l.confirm("from before")
	v, ok := l.find("from before")
	require.True(t, ok)
	require.Equal(t, confirmed, v.phase)
	l.observe(workpull.Snapshot{Waiting: 1})
	require.False(t, l.full())
	require.Zero(t, l.unfinished())
}

// A producer that is superseded tells whoever waits, and forgets what is the
// other's now.
func TestAbandonedLedger(t *testing.T) {
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 10, true)
	l.enter(1)
	waiting := map[string]*record{}
	for token, id := range []string{"done", "stored", "offered", "queued"} {
		r, _, err := l.submit(id, &jobpb.Job{})
		require.NoError(t, err)
		waiting[id] = r
		if id != "queued" {
			require.NotNil(t, l.offer(uint64(token)))
			l.answer(uint64(token))
		}
	}
	l.accept(0)
	l.accept(1)
	l.confirm("done")
	l.abandon()
	for _, id := range []string{"offered", "queued"} {
		<-waiting[id].settled
		require.ErrorIs(t, l.leave(waiting[id]).err, errAbandoned, id)
	}
	require.Equal(t, accepted, l.leave(waiting["stored"]).phase, "it was acknowledged before")
	require.Zero(t, l.unfinished())
	_, ok := l.find("stored")
	require.False(t, ok)
	_, ok = l.find("done")
	require.True(t, ok, "done stays done")
	require.Nil(t, l.offer(9))
}
