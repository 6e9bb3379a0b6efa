package codec

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// carry sends a message over the wire.
func carry[M proto.Message](t testing.TB, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	fresh := m.ProtoReflect().New().Interface()
	require.NoError(t, proto.Unmarshal(data, fresh))
	return fresh.(M)
}

func TestTheWireKeepsEverything(t *testing.T) {
	r := core.Registration{Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Nonce: 7, Draining: true, Host: "h:1", RetiredBy: 9, Held: &core.HeldAttempt{ID: "a", Epoch: 2, Token: 3}}
	decoded, ok := DecodeRegister(carry(t, EncodeRegister(&r)))
	require.True(t, ok)
	require.Empty(t, cmp.Diff(r, decoded))

	for _, c := range []*core.Control{
		{Session: math.MaxUint64, Binding: 2, Nonce: 3, Number: 4, Kind: core.Request, Confirmed: 5, RequestedUpTo: 6, ViaTimeout: true,
			Received: []core.Range{{First: 7, Last: 7}, {First: 9, Last: 12}}},
		{Session: 1, Binding: 2, Nonce: 3, Number: 4, Kind: core.Ack, Confirmed: 5, Started: 6,
			Exceptions: []core.Exception{{Sequence: 3, Kind: core.Rejected, Reason: "no"}, {Sequence: 8, Kind: core.Recalled}}},
		{Session: 1, Binding: 2, Nonce: 3, Number: 4, Kind: core.Drain, Confirmed: 5, KeepUpTo: 6},
		{Session: 1, Binding: 2, Nonce: 3, Number: 4, Kind: core.Stop, Confirmed: 5},
		{Session: 1, Binding: 2, Nonce: 3, Number: 4, Kind: core.Ack, Confirmed: 5, Started: 6, Announce: true},
	} {
		decoded, ok := DecodeControl(carry(t, EncodeControl(c)))
		require.True(t, ok)
		require.Empty(t, cmp.Diff(c, decoded))
	}

	for _, d := range []core.Delivery{
		{Sequence: 3, ID: "a", Attempt: 2, Token: 9, Epoch: 4, Payload: core.Payload{TypeURL: "x", Value: []byte("y")}},
		{Sequence: 4, Skip: true},
	} {
		jobs, ok := DecodeBatch(carry(t, &wire.Batch{Jobs: []*wire.Job{EncodeJob(&d)}}))
		require.True(t, ok)
		require.Empty(t, cmp.Diff([]*core.Delivery{&d}, jobs))
	}

	for _, adopted := range []*core.HeldAttempt{nil, {ID: "a", Epoch: 2, Token: 3}} {
		grant := core.Grant{Confirmed: 3, Nonce: 4, Lease: 5 * time.Second, Retired: true, Epoch: 6, Adopted: adopted}
		ack := carry(t, EncodeRegisterAck(&core.Effect{Session: 1, Binding: 2, Grant: &grant}))
		require.EqualValues(t, 1, ack.GetSession())
		require.EqualValues(t, 2, ack.GetBinding())
		decoded, ok := DecodeRegisterAck(ack)
		require.True(t, ok)
		require.Empty(t, cmp.Diff(grant, decoded))
	}
	late := core.HeldAttempt{ID: "a", Epoch: 2, Token: 3}
	require.Equal(t, late, DecodeLate(carry(t, EncodeLate(7, late))))
	for _, nonsense := range []int64{0, -1, math.MinInt64, int64(time.Millisecond)} {
		require.Equal(t, core.DefaultLease, DecodeLease(&wire.RegisterAck{LeaseNanos: nonsense}))
	}
}

func TestMalformedMessagesAreDropped(t *testing.T) { // rule 22
	register := func() *wire.Register {
		return &wire.Register{Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Nonce: 1}
	}
	for name, change := range map[string]func(*wire.Register){
		"no producer":    func(r *wire.Register) { r.Producer = "" },
		"no endpoint":    func(r *wire.Register) { r.Endpoint = "" },
		"no identity":    func(r *wire.Register) { r.Identity = "" },
		"no incarnation": func(r *wire.Register) { r.Incarnation = "" },
		"no nonce":       func(r *wire.Register) { r.Nonce = 0 },
		"a huge name":    func(r *wire.Register) { r.Identity = string(make([]byte, maxName+1)) },
	} {
		r := register()
		change(r)
		_, ok := DecodeRegister(r)
		require.False(t, ok, name)
	}
	for name, c := range map[string]*wire.Control{
		"no kind":             {},
		"an unknown kind":     {Kind: 99},
		"ranges that fall":    {Kind: wire.Control_KIND_REQUEST, Received: []*wire.Range{{First: 5, Last: 6}, {First: 3, Last: 4}}},
		"a range upside down": {Kind: wire.Control_KIND_REQUEST, Received: []*wire.Range{{First: 5, Last: 4}}},
		"a range from zero":   {Kind: wire.Control_KIND_REQUEST, Received: []*wire.Range{{First: 0, Last: 4}}},
		"an endless range":    {Kind: wire.Control_KIND_REQUEST, Received: []*wire.Range{{First: 1, Last: math.MaxUint64}}},
		"too many ranges":     {Kind: wire.Control_KIND_REQUEST, Received: make([]*wire.Range, core.MaxWindow+1)},
	} {
		_, ok := DecodeControl(c)
		require.False(t, ok, name)
	}
	for name, b := range map[string]*wire.Batch{
		"no jobs":       {},
		"no sequence":   {Jobs: []*wire.Job{{MessageId: "a", Attempt: 1}}},
		"no MessageID":  {Jobs: []*wire.Job{{Sequence: 1, Attempt: 1}}},
		"no attempt":    {Jobs: []*wire.Job{{Sequence: 1, MessageId: "a"}}},
		"too many jobs": {Jobs: make([]*wire.Job, core.MaxWindow+1)},
	} {
		_, ok := DecodeBatch(b)
		require.False(t, ok, name)
	}
}

// What comes from the wire never panics, and what is taken is well-formed.

func FuzzRegister(f *testing.F) {
	seed(f, &wire.Register{Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Nonce: 1})
	producer := fuzzedProducer(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Register)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		r, ok := DecodeRegister(m)
		if !ok {
			return
		}
		again, ok := DecodeRegister(EncodeRegister(&r))
		require.True(t, ok)
		require.Equal(t, r, again)
		producer.Register(0, "peer", r)
		producer.Verified(0, "peer", r, true, 2)
		producer.Take()
	})
}

func FuzzControl(f *testing.F) {
	seed(f, &wire.Control{Session: 1, Binding: 1, Nonce: 1, Control: 1, Kind: wire.Control_KIND_REQUEST, RequestedUpTo: 10, ViaTimeout: true,
		Received: []*wire.Range{{First: 1, Last: 2}}, Exceptions: []*wire.Exception{{Sequence: 1, Kind: wire.Exception_KIND_REJECTED, Reason: "x"}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Control)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		c, ok := DecodeControl(m)
		if !ok {
			return
		}
		again, ok := DecodeControl(EncodeControl(c))
		require.True(t, ok)
		require.Equal(t, c, again)
		p := fuzzedProducer(t)
		c.Session, c.Binding, c.Nonce, c.Number = 1, 1, 1, max(1, c.Number)
		p.Control(0, "peer", c)
		p.Control(0, "peer", c)
		require.False(t, p.Stopped(), "rule 36: a worker cannot end the controller")
	})
}

func FuzzBatch(f *testing.F) {
	seed(f, &wire.Batch{Session: 1, Binding: 1, Jobs: []*wire.Job{{Sequence: 1, MessageId: "a", Attempt: 1, TypeUrl: "x", Payload: []byte("y")}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Batch)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		jobs, ok := DecodeBatch(m)
		if !ok {
			return
		}
		c, err := core.NewConsumer(core.ConsumerConfig{
			Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Actor: "actor", Window: 10, ResendInterval: time.Second,
		})
		require.NoError(t, err)
		c.Start(0)
		c.Resolved(0, "peer")
		c.RegisterAck(0, "peer", 1, 1, core.Grant{Nonce: 1, Lease: time.Second})
		c.Batch(0, "peer", 1, 1, jobs)
		require.LessOrEqual(t, c.Status().Buffered, 10, "rule 78")
	})
}

func seed(f *testing.F, m proto.Message) {
	data, err := proto.Marshal(m)
	require.NoError(f, err)
	f.Add(data)
}

// fuzzedProducer has one worker with one job.
func fuzzedProducer(t testing.TB) *core.Producer {
	p, err := core.NewProducer(core.ProducerConfig{Name: "p", Actor: "actor", RetryInterval: time.Second, StoreAhead: 10})
	require.NoError(t, err)
	p.Start(0, 1, nil)
	r := core.Registration{Producer: "p", Endpoint: "e", Identity: "i", Incarnation: "n", Nonce: 1, Host: "h:1"}
	p.Register(0, "peer", r)
	p.Verified(0, "peer", r, true, 1)
	p.Produced(0, "actor", 1, 1, "job", core.Payload{TypeURL: "x"})
	p.StoredAck(0, "actor", 1, 1)
	p.Take()
	return p
}
