package workpull

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

const (
	// ReservedIDPrefix begins MessageIDs that only the pattern itself gives.
	ReservedIDPrefix = "workpull:"

	// maxFrame is GoAkt's frame, frameOverhead what a batch, its envelope and
	// the longest identities take beside one payload, in bytes.
	maxFrame      = 16 << 20
	frameOverhead = 64 << 10
	// MaxPayloadBytes is the largest encoded payload: one job always fits a
	// frame (rule 10).
	MaxPayloadBytes = maxFrame - frameOverhead
	// MaxMessageIDBytes is the longest MessageID.
	MaxMessageIDBytes = 16 << 10
)

// RequestNext asks the producer actor for one job. It is answered with
// Produced, sent to the sender of RequestNext. It comes again, with the same
// session and token, until it is answered (rule 5).
type RequestNext struct {
	parties
	producer       string
	session, token uint64
}

// Session of the producer controller that asks.
func (m *RequestNext) Session() uint64 { return m.session }

// Token of the credit; each is answered once.
func (m *RequestNext) Token() uint64 { return m.token }

// ProtoReflect implements proto.Message.
func (m *RequestNext) ProtoReflect() protoreflect.Message {
	return (&wire.HandshakeShadow{Message: "RequestNext", Producer: m.producer, Session: m.session, Token: m.token}).ProtoReflect()
}

// Produced is the producer actor's answer to RequestNext: a job.
type Produced struct {
	session, token uint64
	id             string
	payload        core.Payload
}

// NewProduced answers request with a job. The payload is encoded here, once;
// later changes to it have no effect (rule 10). The error is a *MessageError
// when the MessageID is blank, not UTF-8, has the reserved prefix or is too long, when
// the payload is nil, cannot be encoded or does not fit a frame.
func NewProduced(request *RequestNext, messageID string, payload proto.Message) (*Produced, error) {
	const name = "Produced"
	switch {
	case request == nil || request.token == 0:
		return nil, &MessageError{Message: name, Field: "request", Reason: "is not a RequestNext that was received"}
	case strings.TrimSpace(messageID) == "":
		return nil, &MessageError{Message: name, Field: "messageID", Reason: "is blank"}
	case strings.HasPrefix(messageID, ReservedIDPrefix):
		return nil, &MessageError{Message: name, Field: "messageID", Reason: fmt.Sprintf("%q begins with the reserved %q", messageID, ReservedIDPrefix)}
	case !utf8.ValidString(messageID): // it could not travel, nor what is sent with it
		return nil, &MessageError{Message: name, Field: "messageID", Reason: fmt.Sprintf("%q is not UTF-8", messageID)}
	case len(messageID) > MaxMessageIDBytes:
		return nil, &MessageError{Message: name, Field: "messageID", Reason: fmt.Sprintf("has %d bytes, wanted at most %d", len(messageID), MaxMessageIDBytes)}
	}
	encoded, err := encodePayload(payload)
	if err != nil {
		return nil, err
	}
	return &Produced{session: request.session, token: request.token, id: messageID, payload: encoded}, nil
}

// MessageID of the job.
func (m *Produced) MessageID() string { return m.id }

// Session of the request that this answers.
func (m *Produced) Session() uint64 { return m.session }

// Token of the request that this answers.
func (m *Produced) Token() uint64 { return m.token }

// ProtoReflect implements proto.Message.
func (m *Produced) ProtoReflect() protoreflect.Message {
	return (&wire.HandshakeShadow{Message: "Produced", Session: m.session, Token: m.token, MessageId: m.id}).ProtoReflect()
}

// Stored tells the producer actor that its job is stored. It is answered with
// StoredAck, and comes again until it is (rule 14).
type Stored struct {
	parties
	producer       string
	session, token uint64
	id             string
	sequence       uint64
}

// MessageID of the job.
func (m *Stored) MessageID() string { return m.id }

// StoreSequence is the job's place in the order of stored jobs.
func (m *Stored) StoreSequence() uint64 { return m.sequence }

// Session of the producer controller.
func (m *Stored) Session() uint64 { return m.session }

// Token of the request that the job answered.
func (m *Stored) Token() uint64 { return m.token }

// ProtoReflect implements proto.Message.
func (m *Stored) ProtoReflect() protoreflect.Message {
	return (&wire.HandshakeShadow{Message: "Stored", Producer: m.producer, Session: m.session, Token: m.token, MessageId: m.id, StoreSequence: m.sequence}).ProtoReflect()
}

// StoredAck is the producer actor's answer to Stored: the job is accepted and
// may go to a worker.
type StoredAck struct{ session, token uint64 }

// NewStoredAck answers stored. The error is a *MessageError when stored was
// not received from a controller.
func NewStoredAck(stored *Stored) (*StoredAck, error) {
	if stored == nil || stored.token == 0 {
		return nil, &MessageError{Message: "StoredAck", Field: "stored", Reason: "is not a Stored that was received"}
	}
	return &StoredAck{session: stored.session, token: stored.token}, nil
}

// Session of the Stored that this answers.
func (m *StoredAck) Session() uint64 { return m.session }

// Token of the Stored that this answers.
func (m *StoredAck) Token() uint64 { return m.token }

// ProtoReflect implements proto.Message.
func (m *StoredAck) ProtoReflect() protoreflect.Message {
	return (&wire.HandshakeShadow{Message: "StoredAck", Session: m.session, Token: m.token}).ProtoReflect()
}

// DeliveryConfirmed tells the producer actor that a worker confirmed a job. It
// is best effort and may repeat (rule 53).
type DeliveryConfirmed struct {
	parties
	producer string
	session  uint64
	id       string
	sequence uint64
}

// MessageID of the job.
func (m *DeliveryConfirmed) MessageID() string { return m.id }

// StoreSequence is the number that Stored carried (rule 52).
func (m *DeliveryConfirmed) StoreSequence() uint64 { return m.sequence }

// Session of the producer controller.
func (m *DeliveryConfirmed) Session() uint64 { return m.session }

// ProtoReflect implements proto.Message.
func (m *DeliveryConfirmed) ProtoReflect() protoreflect.Message {
	return (&wire.HandshakeShadow{Message: "DeliveryConfirmed", Producer: m.producer, Session: m.session, MessageId: m.id, StoreSequence: m.sequence}).ProtoReflect()
}

// Delivery hands a job to the worker actor. It is answered with Confirmed once
// the job is done, or with Rejected, sent to the sender of Delivery; until
// then the worker gets no other job (rule 80).
type Delivery struct {
	parties
	session, binding uint64
	sequence         uint64
	id               string
	attempt          uint32
	token, epoch     uint64
	payload          proto.Message
}

// MessageID of the job.
func (m *Delivery) MessageID() string { return m.id }

// Payload of the job, decoded afresh for this delivery: it is the worker's to
// change.
func (m *Delivery) Payload() proto.Message { return m.payload }

// Attempt is the number of this attempt, from 1: one more than the attempts
// that were charged to the job.
func (m *Delivery) Attempt() int { return int(m.attempt) }

// AttemptToken numbers every dispatch of a session: of two deliveries of one
// job in a session the later one has the higher token, so that a side effect
// can be fenced (B6). Between sessions QueueEpoch comes first.
func (m *Delivery) AttemptToken() uint64 { return m.token }

// QueueEpoch numbers the loads of the producer's durable queue: of two
// deliveries of one job that of the higher epoch is the later one. It is 0
// without a queue: sessions cannot be told apart by number then.
func (m *Delivery) QueueEpoch() uint64 { return m.epoch }

// Sequence of the delivery at this worker.
func (m *Delivery) Sequence() uint64 { return m.sequence }

// Session of the producer controller.
func (m *Delivery) Session() uint64 { return m.session }

// ProtoReflect implements proto.Message.
func (m *Delivery) ProtoReflect() protoreflect.Message {
	return m.shadow("Delivery", "").ProtoReflect()
}

func (m *Delivery) shadow(name, reason string) *wire.DeliveryShadow {
	return &wire.DeliveryShadow{
		Message: name, Worker: m.workerName(), Session: m.session, Binding: m.binding,
		Sequence: m.sequence, MessageId: m.id, Attempt: m.attempt, Reason: reason,
	}
}

// outcome is what a worker actor says of a delivery.
type outcome struct {
	session, binding uint64
	sequence         uint64
	id               string
}

func outcomeOf(name string, d *Delivery) (outcome, error) {
	if d == nil || d.sequence == 0 {
		return outcome{}, &MessageError{Message: name, Field: "delivery", Reason: "is not a Delivery that was received"}
	}
	return outcome{session: d.session, binding: d.binding, sequence: d.sequence, id: d.id}, nil
}

func (o *outcome) shadow(name, reason string) *wire.DeliveryShadow {
	return &wire.DeliveryShadow{Message: name, Session: o.session, Binding: o.binding, Sequence: o.sequence, MessageId: o.id, Reason: reason}
}

// Confirmed tells that the job of a Delivery is done.
type Confirmed struct{ outcome }

// NewConfirmed confirms delivery. The error is a *MessageError when delivery
// was not received from a controller.
func NewConfirmed(delivery *Delivery) (*Confirmed, error) {
	o, err := outcomeOf("Confirmed", delivery)
	if err != nil {
		return nil, err
	}
	return &Confirmed{o}, nil
}

// MessageID of the job.
func (m *Confirmed) MessageID() string { return m.id }

// ProtoReflect implements proto.Message.
func (m *Confirmed) ProtoReflect() protoreflect.Message {
	return m.shadow("Confirmed", "").ProtoReflect()
}

// Rejected tells that the worker did not do the job of a Delivery. The job
// waits for its backoff and is then given out again (B3).
type Rejected struct {
	outcome
	reason string
}

// NewRejected rejects delivery. A reason longer than 1 KiB is cut. The error
// is a *MessageError when delivery was not received from a controller.
func NewRejected(delivery *Delivery, reason string) (*Rejected, error) {
	o, err := outcomeOf("Rejected", delivery)
	if err != nil {
		return nil, err
	}
	return &Rejected{outcome: o, reason: codec.Cut(reason)}, nil
}

// MessageID of the job.
func (m *Rejected) MessageID() string { return m.id }

// Reason of the rejection.
func (m *Rejected) Reason() string { return m.reason }

// ProtoReflect implements proto.Message.
func (m *Rejected) ProtoReflect() protoreflect.Message {
	return m.shadow("Rejected", m.reason).ProtoReflect()
}

// parties are the endpoint that a message is for and the controller that it
// is from.
type parties struct{ endpoint, controller *actor.PID }

// IsAuthorizedFor tells whether the message was made for the endpoint self by
// the controller sender. An actor that does not trust every actor of its
// system checks it with ctx.Self() and ctx.Sender().
func (p *parties) IsAuthorizedFor(self, sender *actor.PID) bool {
	return p.endpoint != nil && self == p.endpoint && sender != nil && sender == p.controller
}

func (p *parties) workerName() string {
	if p.endpoint == nil {
		return ""
	}
	return p.endpoint.Name()
}
