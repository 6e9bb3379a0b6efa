// Package codec converts between the core's values and their wire form. What
// comes from the wire is checked here, so that the core sees only what a
// controller could have sent; what is not well-formed is dropped (rule 22).
package codec

import (
	"math"
	"strings"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// MinLease leaves room for three signs of life.
const MinLease = 30 * time.Millisecond

// MaxReason bounds the reason of a rejection, which is repeated until it is
// acknowledged, in bytes.
const MaxReason = 1 << 10

// Cut makes a reason valid for the wire: UTF-8 and bounded.
func Cut(reason string) string {
	if len(reason) > MaxReason {
		reason = reason[:MaxReason]
	}
	return strings.ToValidUTF8(reason, "")
}

// maxName bounds names and identities on the wire, in bytes.
const maxName = 1 << 10

// DecodeRegister drops a registration that lacks a name or has a huge one.
func DecodeRegister(m *wire.Register) (core.Registration, bool) {
	r := core.Registration{
		Producer: m.GetProducer(), Endpoint: m.GetEndpoint(), Identity: m.GetIdentity(),
		Incarnation: m.GetIncarnation(), Nonce: m.GetNonce(), Draining: m.GetDraining(), Host: m.GetHost(), RetiredBy: m.GetRetiredBy(), Held: decodeHeld(m.GetHeld()),
	}
	for _, s := range []string{r.Producer, r.Endpoint, r.Identity, r.Incarnation} {
		if s == "" || len(s) > maxName {
			return core.Registration{}, false
		}
	}
	return r, r.Nonce > 0
}

// EncodeRegister is the wire form of a registration.
func EncodeRegister(r *core.Registration) *wire.Register {
	return &wire.Register{
		Producer: r.Producer, Endpoint: r.Endpoint, Identity: r.Identity,
		Incarnation: r.Incarnation, Nonce: r.Nonce, Draining: r.Draining, Host: r.Host, RetiredBy: r.RetiredBy, Held: encodeHeld(r.Held),
	}
}

// EncodeRegisterAck is the wire form of a RegisterAck effect.
func EncodeRegisterAck(e *core.Effect) *wire.RegisterAck {
	return &wire.RegisterAck{
		Session: e.Session, Binding: e.Binding, Confirmed: e.Confirmed, Nonce: e.Nonce, LeaseNanos: int64(e.Lease), Retired: e.Retired,
		Epoch: e.Epoch, Adopted: encodeHeld(e.Adopted),
	}
}

// encodeHeld is the wire form of an attempt that a worker runs, nil for none.
func encodeHeld(h *core.HeldAttempt) *wire.Held {
	if h == nil {
		return nil
	}
	return &wire.Held{MessageId: h.ID, Epoch: h.Epoch, Token: h.Token}
}

// decodeHeld drops an attempt that no queue gave out.
func decodeHeld(m *wire.Held) *core.HeldAttempt {
	if m.GetMessageId() == "" || m.GetEpoch() == 0 || m.GetToken() == 0 {
		return nil
	}
	return &core.HeldAttempt{ID: m.GetMessageId(), Epoch: m.GetEpoch(), Token: m.GetToken()}
}

// DecodeRegisterAck drops an answer whose sequences begin where no producer can
// have come to.
func DecodeRegisterAck(m *wire.RegisterAck) (core.Grant, bool) {
	confirmed, ok := DecodeConfirmed(m)
	return core.Grant{
		Confirmed: confirmed, Nonce: m.GetNonce(), Lease: DecodeLease(m), Retired: m.GetRetired(),
		Epoch: m.GetEpoch(), Adopted: decodeHeld(m.GetAdopted()),
	}, ok
}

// DecodeLate is the attempt that a late confirmation is of.
func DecodeLate(m *wire.Late) core.HeldAttempt {
	return core.HeldAttempt{ID: m.GetMessageId(), Epoch: m.GetEpoch(), Token: m.GetToken()}
}

// EncodeLate is the wire form of a late confirmation.
func EncodeLate(session uint64, h core.HeldAttempt) *wire.Late {
	return &wire.Late{Session: session, MessageId: h.ID, Epoch: h.Epoch, Token: h.Token}
}

// DecodeLease takes a lease that makes no sense for the default.
func DecodeLease(m *wire.RegisterAck) time.Duration {
	if lease := time.Duration(m.GetLeaseNanos()); lease >= MinLease {
		return lease
	}
	return core.DefaultLease
}

// DecodeConfirmed is where the sequences of a binding begin. It drops a number
// that no producer can have come to: near the end of the numbers, sums with the
// window would wrap round.
func DecodeConfirmed(m *wire.RegisterAck) (uint64, bool) {
	return m.GetConfirmed(), m.GetConfirmed() <= math.MaxInt64
}

var kinds = map[wire.Control_Kind]core.ControlKind{
	wire.Control_KIND_REQUEST: core.Request,
	wire.Control_KIND_ACK:     core.Ack,
	wire.Control_KIND_DRAIN:   core.Drain,
	wire.Control_KIND_STOP:    core.Stop,
}

var wireKinds = map[core.ControlKind]wire.Control_Kind{
	core.Request: wire.Control_KIND_REQUEST,
	core.Ack:     wire.Control_KIND_ACK,
	core.Drain:   wire.Control_KIND_DRAIN,
	core.Stop:    wire.Control_KIND_STOP,
}

var exceptionKinds = map[wire.Exception_Kind]core.ExceptionKind{
	wire.Exception_KIND_REJECTED: core.Rejected,
	wire.Exception_KIND_RECALLED: core.Recalled,
}

var wireExceptionKinds = map[core.ExceptionKind]wire.Exception_Kind{
	core.Rejected: wire.Exception_KIND_REJECTED,
	core.Recalled: wire.Exception_KIND_RECALLED,
}

// DecodeControl drops a message of an unknown kind, or with ranges that are not
// ascending.
func DecodeControl(m *wire.Control) (*core.Control, bool) {
	kind, known := kinds[m.GetKind()]
	if !known || len(m.GetReceived()) > core.MaxWindow || len(m.GetExceptions()) > core.MaxWindow {
		return nil, false
	}
	c := &core.Control{
		Session: m.GetSession(), Binding: m.GetBinding(), Nonce: m.GetNonce(), Number: m.GetControl(),
		Kind: kind, Confirmed: m.GetConfirmed(), RequestedUpTo: m.GetRequestedUpTo(),
		ViaTimeout: m.GetViaTimeout(), KeepUpTo: m.GetKeepUpTo(), Started: m.GetStarted(), Announce: m.GetAnnounce(),
	}
	last := uint64(0)
	for _, r := range m.GetReceived() {
		if r.GetFirst() <= last || r.GetLast() < r.GetFirst() || r.GetLast() == math.MaxUint64 {
			return nil, false // not ascending
		}
		last = r.GetLast()
		c.Received = append(c.Received, core.Range{First: r.GetFirst(), Last: r.GetLast()})
	}
	for _, x := range m.GetExceptions() {
		kind, known := exceptionKinds[x.GetKind()]
		if !known {
			return nil, false
		}
		c.Exceptions = append(c.Exceptions, core.Exception{Sequence: x.GetSequence(), Kind: kind, Reason: Cut(x.GetReason())})
	}
	return c, true
}

// EncodeControl is the wire form of a control message.
func EncodeControl(c *core.Control) *wire.Control {
	m := &wire.Control{
		Session: c.Session, Binding: c.Binding, Nonce: c.Nonce, Control: c.Number,
		Kind: wireKinds[c.Kind], Confirmed: c.Confirmed, RequestedUpTo: c.RequestedUpTo,
		ViaTimeout: c.ViaTimeout, KeepUpTo: c.KeepUpTo, Started: c.Started, Announce: c.Announce,
	}
	for _, r := range c.Received {
		m.Received = append(m.Received, &wire.Range{First: r.First, Last: r.Last})
	}
	for _, x := range c.Exceptions {
		m.Exceptions = append(m.Exceptions, &wire.Exception{Sequence: x.Sequence, Kind: wireExceptionKinds[x.Kind], Reason: x.Reason})
	}
	return m
}

// EncodeJob is the wire form of a delivery.
func EncodeJob(d *core.Delivery) *wire.Job {
	return &wire.Job{
		Sequence: d.Sequence, MessageId: d.ID, Attempt: d.Attempt, Token: d.Token, Skip: d.Skip, Announce: d.Announce, Epoch: d.Epoch,
		TypeUrl: d.Payload.TypeURL, Payload: d.Payload.Value,
	}
}

// DecodeBatch drops a batch with a job that could not have been accepted.
func DecodeBatch(m *wire.Batch) ([]*core.Delivery, bool) {
	if len(m.GetJobs()) == 0 || len(m.GetJobs()) > core.MaxWindow {
		return nil, false
	}
	jobs := make([]*core.Delivery, len(m.GetJobs()))
	values := make([]core.Delivery, len(jobs))
	for i, j := range m.GetJobs() {
		if j.GetSequence() == 0 || !j.GetSkip() && (j.GetMessageId() == "" || j.GetAttempt() == 0) {
			return nil, false
		}
		values[i] = core.Delivery{
			Sequence: j.GetSequence(), ID: j.GetMessageId(), Attempt: j.GetAttempt(), Token: j.GetToken(), Skip: j.GetSkip(), Announce: j.GetAnnounce(), Epoch: j.GetEpoch(),
			Payload: core.Payload{TypeURL: j.GetTypeUrl(), Value: j.GetPayload()},
		}
		jobs[i] = &values[i]
	}
	return jobs, true
}
