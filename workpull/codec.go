package workpull

import (
	"context"
	"math"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/address"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/outbox"
	"github.com/workpull/operator/workpull/internal/wire"
)

// The wire form of the core's values. What comes from the wire is checked
// here, so that the core sees only what a controller could have sent; what is
// not well-formed is dropped (rule 22).

// outbox returns one toward a controller on another node, with connections of
// its own that end with it.
func (n *node) outbox(from *actor.PID, to *address.Address, failed func(bindings []uint64)) *outbox.Outbox {
	client, sender := n.client(), from.Address()
	return outbox.New(outbox.Config{
		Send: func(ctx context.Context, messages []proto.Message) error {
			return client.RemoteBatchTell(ctx, sender, to, messages)
		},
		Failed: failed,
		Closed: client.Close,
	})
}

// maxName bounds names and identities on the wire, in bytes.
const maxName = 1 << 10

func decodeRegister(m *wire.Register) (core.Registration, bool) {
	r := core.Registration{
		Producer: m.GetProducer(), Endpoint: m.GetEndpoint(), Identity: m.GetIdentity(),
		Incarnation: m.GetIncarnation(), Nonce: m.GetNonce(), Draining: m.GetDraining(), Host: m.GetHost(),
	}
	for _, s := range []string{r.Producer, r.Endpoint, r.Identity, r.Incarnation} {
		if s == "" || len(s) > maxName {
			return core.Registration{}, false
		}
	}
	return r, r.Nonce > 0
}

func encodeRegister(r *core.Registration) *wire.Register {
	return &wire.Register{
		Producer: r.Producer, Endpoint: r.Endpoint, Identity: r.Identity,
		Incarnation: r.Incarnation, Nonce: r.Nonce, Draining: r.Draining, Host: r.Host,
	}
}

func encodeRegisterAck(e *core.Effect) *wire.RegisterAck {
	return &wire.RegisterAck{
		Session: e.Session, Binding: e.Binding, Confirmed: e.Confirmed, Nonce: e.Nonce, LeaseNanos: int64(e.Lease),
	}
}

// decodeLease takes a lease that makes no sense for the default.
func decodeLease(m *wire.RegisterAck) time.Duration {
	if lease := time.Duration(m.GetLeaseNanos()); lease >= minLease {
		return lease
	}
	return core.DefaultLease
}

var kinds = map[wire.Control_Kind]core.ControlKind{
	wire.Control_KIND_REQUEST: core.Request,
	wire.Control_KIND_ACK:     core.Ack,
	wire.Control_KIND_DRAIN:   core.Drain,
}

var wireKinds = map[core.ControlKind]wire.Control_Kind{
	core.Request: wire.Control_KIND_REQUEST,
	core.Ack:     wire.Control_KIND_ACK,
	core.Drain:   wire.Control_KIND_DRAIN,
}

func decodeControl(m *wire.Control) (*core.Control, bool) {
	kind, known := kinds[m.GetKind()]
	if !known || len(m.GetReceived()) > core.MaxWindow || len(m.GetRejections()) > core.MaxWindow {
		return nil, false
	}
	c := &core.Control{
		Session: m.GetSession(), Binding: m.GetBinding(), Nonce: m.GetNonce(), Number: m.GetControl(),
		Kind: kind, Confirmed: m.GetConfirmed(), RequestedUpTo: m.GetRequestedUpTo(),
		ViaTimeout: m.GetViaTimeout(), KeepUpTo: m.GetKeepUpTo(),
	}
	last := uint64(0)
	for _, r := range m.GetReceived() {
		if r.GetFirst() <= last || r.GetLast() < r.GetFirst() || r.GetLast() == math.MaxUint64 {
			return nil, false // not ascending
		}
		last = r.GetLast()
		c.Received = append(c.Received, core.Range{First: r.GetFirst(), Last: r.GetLast()})
	}
	for _, r := range m.GetRejections() {
		c.Rejections = append(c.Rejections, core.Rejection{Sequence: r.GetSequence(), Reason: cut(r.GetReason())})
	}
	return c, true
}

func encodeControl(c *core.Control) *wire.Control {
	m := &wire.Control{
		Session: c.Session, Binding: c.Binding, Nonce: c.Nonce, Control: c.Number,
		Kind: wireKinds[c.Kind], Confirmed: c.Confirmed, RequestedUpTo: c.RequestedUpTo,
		ViaTimeout: c.ViaTimeout, KeepUpTo: c.KeepUpTo,
	}
	for _, r := range c.Received {
		m.Received = append(m.Received, &wire.Range{First: r.First, Last: r.Last})
	}
	for _, r := range c.Rejections {
		m.Rejections = append(m.Rejections, &wire.Rejection{Sequence: r.Sequence, Reason: r.Reason})
	}
	return m
}

// decodeBatch drops a batch with a job that could not have been accepted.
func decodeBatch(m *wire.Batch) ([]core.Delivery, bool) {
	if len(m.GetJobs()) == 0 || len(m.GetJobs()) > core.MaxWindow {
		return nil, false
	}
	jobs := make([]core.Delivery, len(m.GetJobs()))
	for i, j := range m.GetJobs() {
		if j.GetSequence() == 0 || j.GetMessageId() == "" || j.GetAttempt() == 0 {
			return nil, false
		}
		jobs[i] = core.Delivery{
			Sequence: j.GetSequence(), ID: j.GetMessageId(), Attempt: j.GetAttempt(),
			Payload: core.Payload{TypeURL: j.GetTypeUrl(), Value: j.GetPayload()},
		}
	}
	return jobs, true
}
