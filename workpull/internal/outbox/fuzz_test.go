package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull/internal/wire"
)

// The deadline of a send leaves time for its bytes on a slow link.
func TestTheDeadlineGrowsWithTheBytes(t *testing.T) {
	left := make(chan time.Duration, 1)
	o := New(Config{Timeout: time.Minute, Send: func(ctx context.Context, _ []proto.Message) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return nil
	}})
	o.Job(1, 1, job(1, 1))
	require.LessOrEqual(t, <-left, time.Minute+time.Second)
	wait(t, idle(o))
	o.Job(1, 1, job(2, 240_000_000))
	require.Greater(t, <-left, 3*time.Minute, "240 MB take four minutes")
}

// Whatever is put in, in whatever order: all of it is sent once and in order,
// no send is larger than the bounds unless one message alone is, and jobs of
// two bindings never share a batch.
func FuzzPacking(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 0, 90, 91, 92, 255, 7})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		const maxBytes, maxJobs, bindings = 1000, 5, 3
		if len(data) > 500 {
			data = data[:500]
		}
		begin, all := make(chan struct{}), make(chan struct{})
		var sends [][]proto.Message
		o := New(Config{MaxBytes: maxBytes, MaxJobs: maxJobs, Closed: func() { close(all) }, Send: func(_ context.Context, messages []proto.Message) error {
			<-begin
			sends = append(sends, messages)
			return nil
		}})
		var want []uint64
		for i, b := range data {
			sequence, binding := uint64(i+1), uint64(b%bindings)+1
			if b%16 == 0 {
				o.Message(binding, wrapperspb.UInt64(sequence))
			} else {
				o.Job(9, binding, &wire.Job{Sequence: sequence, MessageId: "j", Attempt: 1, Payload: make([]byte, int(b)*5)})
			}
			want = append(want, sequence)
		}
		close(begin)
		wait(t, idle(o))
		o.Close()
		<-all
		var got []uint64
		for _, messages := range sends {
			items, bytes := 0, 0
			for _, m := range messages {
				switch m := m.(type) {
				case *wrapperspb.UInt64Value:
					got = append(got, m.GetValue())
					items++
					bytes += proto.Size(m)
				case *wire.Batch:
					require.NotEmpty(t, m.GetJobs())
					require.EqualValues(t, 9, m.GetSession())
					for _, j := range m.GetJobs() {
						require.EqualValues(t, uint64(data[j.GetSequence()-1]%bindings)+1, m.GetBinding())
						got = append(got, j.GetSequence())
						items++
						bytes += jobSize(j)
					}
				}
			}
			require.LessOrEqual(t, items, maxJobs)
			require.True(t, items == 1 || bytes <= maxBytes, "%d messages of %d bytes", items, bytes)
		}
		require.Equal(t, want, got)
	})
}
