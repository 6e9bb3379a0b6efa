package producer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpull/operator/runtime/internal/jobpb"
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
	l := newLedger(clock, 10)
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
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 10)
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
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 10)
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
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 1)
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
	l := newLedger(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), 1)
	_, _, err := l.submit("a", &jobpb.Job{})
	require.NoError(t, err)
	require.True(t, l.full())
	l.observe(1)
	require.False(t, l.full())
	_, _, err = l.submit("b", &jobpb.Job{})
	require.NoError(t, err)
	_, _, err = l.submit("c", &jobpb.Job{})
	require.ErrorIs(t, err, errFull)
}
