package codec

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// The messages that a consumer controller takes from its producer's, and the
// late confirmations that go the other way.

const fuzzedWindow = 4

// fuzzedConsumer is bound and has asked for a window of jobs.
func fuzzedConsumer(t testing.TB) *core.Consumer {
	t.Helper()
	c, err := core.NewConsumer(core.ConsumerConfig{
		Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Actor: "actor", Window: fuzzedWindow, ResendInterval: time.Second,
	})
	require.NoError(t, err)
	c.Start(0)
	c.Resolved(0, "peer")
	return c
}

// sent returns the control messages that the controller wants to send.
func sent(c *core.Consumer) []*core.Control {
	var out []*core.Control
	for _, e := range c.Take() {
		if e.Kind == core.SendControl {
			out = append(out, e.Message)
		}
	}
	return out
}

func jobs(first, last uint64) []*core.Delivery {
	var out []*core.Delivery
	for s := first; ; s++ {
		out = append(out, &core.Delivery{Sequence: s, ID: string(rune('a' + s - first)), Attempt: 1})
		if s == last {
			return out
		}
	}
}

// Whatever number an acknowledgement begins with, the demand is one window
// above it, and what comes within it is taken in, told and asked for (rule 76).
func FuzzRegisterAck(f *testing.F) {
	for _, confirmed := range []uint64{0, 41, math.MaxInt64, math.MaxUint64 - fuzzedWindow, math.MaxUint64} {
		seed(f, &wire.RegisterAck{Session: 1, Binding: 2, Confirmed: confirmed, Nonce: 1, LeaseNanos: int64(time.Second), Retired: true})
		seed(f, &wire.RegisterAck{Session: 1, Binding: 2, Confirmed: confirmed, Nonce: 1, Epoch: 3, Adopted: &wire.Held{MessageId: "a", Epoch: 2, Token: 7}})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.RegisterAck)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		grant, ok := DecodeRegisterAck(m)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, grant.Lease, MinLease)
		c := fuzzedConsumer(t)
		c.Take()
		c.RegisterAck(0, "peer", m.GetSession(), m.GetBinding(), grant)
		if m.GetSession() == 0 || m.GetBinding() == 0 || m.GetNonce() != 1 {
			require.Empty(t, c.Take(), "rule 75")
			return
		}
		messages := sent(c)
		require.Len(t, messages, 1)
		first := grant.Confirmed
		if grant.Adopted != nil { // that this worker does not have: it gives it back (B15)
			first++
			require.Equal(t, []core.Exception{{Sequence: first, Kind: core.Recalled}}, messages[0].Exceptions)
		}
		require.Equal(t, first+fuzzedWindow, messages[0].RequestedUpTo)
		require.Positive(t, c.Interval())
		c.Batch(0, "peer", m.GetSession(), m.GetBinding(), jobs(first+2, first+fuzzedWindow))
		require.Equal(t, fuzzedWindow-1, c.Status().Buffered, "the first is missing, the rest waits")
		messages = sent(c)
		c.Tick(2 * time.Second)
		messages = append(messages, sent(c)...)
		require.NotEmpty(t, messages)
		require.Equal(t, []core.Range{{First: first + 2, Last: first + fuzzedWindow}}, messages[len(messages)-1].Received)
	})
}

// Only the acknowledgement of a message that carried an exception ends its
// repetition, and only one that was sent can be acknowledged (B4).
func FuzzControlAck(f *testing.F) {
	seed(f, &wire.ControlAck{Session: 1, Binding: 2, Control: 3})
	seed(f, &wire.ControlAck{Session: 1, Binding: 2, Control: math.MaxUint64})
	seed(f, &wire.ControlAck{Session: 2, Binding: 2, Control: 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.ControlAck)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		c := fuzzedConsumer(t)
		c.RegisterAck(0, "peer", 1, 2, core.Grant{Nonce: 1, Lease: time.Second})
		c.Batch(0, "peer", 1, 2, jobs(1, 1))
		c.Take()
		c.Rejected(0, "actor", 1, 2, 1, "a", "no")
		carried := sent(c)
		require.Len(t, carried, 1)
		require.Len(t, carried[0].Exceptions, 1)
		number := carried[0].Number

		c.ControlAck(0, "peer", m.GetSession(), m.GetBinding(), m.GetControl())
		c.Batch(0, "peer", 1, 2, jobs(1, 1)) // a repeat, which is answered
		again := sent(c)
		require.NotEmpty(t, again)
		if m.GetSession() == 1 && m.GetBinding() == 2 && m.GetControl() == number {
			require.Empty(t, again[len(again)-1].Exceptions)
			return
		}
		require.Len(t, again[len(again)-1].Exceptions, 1)
	})
}

// A recall takes what is buffered or not seen yet, within the demand; never
// what runs, nor what is done (B4).
func FuzzRecall(f *testing.F) {
	for _, sequence := range []uint64{0, 1, 2, 3, 4, 5, math.MaxUint64} {
		seed(f, &wire.Recall{Session: 1, Binding: 2, Sequence: sequence})
	}
	seed(f, &wire.Recall{Session: 1, Binding: 3, Sequence: 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Recall)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		c := fuzzedConsumer(t)
		c.RegisterAck(0, "peer", 1, 2, core.Grant{Nonce: 1, Lease: time.Second})
		c.Batch(0, "peer", 1, 2, jobs(1, 3))
		c.Take()
		before := c.Status()
		c.Recall(0, "peer", m.GetSession(), m.GetBinding(), m.GetSequence())
		c.Recall(0, "peer", m.GetSession(), m.GetBinding(), m.GetSequence())
		messages := sent(c)
		if m.GetSession() != 1 || m.GetBinding() != 2 {
			require.Empty(t, messages)
			require.Equal(t, before, c.Status())
			return
		}
		require.Len(t, messages, 2, "each is answered")
		require.Equal(t, "a", c.Status().InFlightID)
		exceptions := messages[1].Exceptions
		switch s := m.GetSequence(); {
		case s < 2 || s > fuzzedWindow:
			require.Empty(t, exceptions)
			require.Equal(t, before, c.Status())
		default:
			require.Equal(t, []core.Exception{{Sequence: s, Kind: core.Recalled}}, exceptions)
		}
	})
}

// A late confirmation completes the one job whose attempt it names (B6).
func FuzzLate(f *testing.F) {
	seed(f, &wire.Late{Session: 1, MessageId: "job", Token: 1})
	seed(f, &wire.Late{Session: 1, MessageId: "job", Token: 2})
	seed(f, &wire.Late{Session: 2, MessageId: "job", Token: 1})
	seed(f, &wire.Late{Session: 1, MessageId: "", Token: 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Late)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		p := fuzzedProducer(t)
		p.Control(0, "peer", &core.Control{Session: 1, Binding: 1, Nonce: 1, Number: 1, Kind: core.Request, RequestedUpTo: 1})
		require.Equal(t, 1, p.Snapshot(0).InFlight)
		p.Terminated(0, "peer")
		require.Equal(t, 1, p.Snapshot(0).Waiting)
		p.Late(0, "peer", m.GetSession(), DecodeLate(m))
		p.Late(0, "peer", m.GetSession(), DecodeLate(m))
		want := uint64(0)
		if m.GetSession() == 1 && m.GetMessageId() == "job" && m.GetToken() == 1 {
			want = 1
		}
		require.Equal(t, want, p.Snapshot(0).Confirmed)
		require.False(t, p.Stopped())
	})
}
