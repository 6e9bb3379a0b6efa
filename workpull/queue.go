package workpull

import (
	"context"
	"fmt"

	"github.com/tochemey/goakt/v3/extension"

	"github.com/workpull/operator/workpull/internal/core"
)

// Errors that a queue returns and that are never tried again (rules 60, 61).
var (
	// ErrQueueFenced: another writer loaded the queue later and owns it.
	ErrQueueFenced = core.ErrQueueFenced
	// ErrQueueConflict: the operation contradicts what is stored.
	ErrQueueConflict = core.ErrQueueConflict
)

// DurableWorkQueue keeps the jobs of one producer endpoint beyond the life of
// its controller. The suite in queue/queuetest holds an implementation to all
// that is said here.
//
// Operations are linearizable and safe for concurrent use (rule 64), and come
// back by the deadline of their context. ErrQueueFenced and ErrQueueConflict,
// wrapped or not, are final; after any other error nobody knows whether the
// operation was carried out, and it may be tried again. A MessageID is any
// string that is not empty: it may hold any bytes and has up to
// MaxMessageIDBytes of them.
//
// The queue is one of its endpoint's dependencies. What MarshalBinary returns
// is how to reach what is stored, and never a job (rule 72): the queue that is
// made of it on another node sees the same state.
type DurableWorkQueue interface {
	extension.Dependency

	// Load begins an epoch that is above all before and fences every older
	// writer (rule 65), and returns what is not confirmed, whether accepted or
	// not (B1), in ascending order of sequences. A Load that fails changes
	// nothing (rule 66); a state that breaks rule 67 is ErrQueueConflict.
	Load(ctx context.Context) (WorkQueueState, QueueEpoch, error)

	// Store appends a job. A new MessageID has to propose the cursor and one,
	// else it is ErrQueueConflict (rule 68). A MessageID that is stored returns
	// its first write, and appends nothing (rule 69). So does one that was
	// compacted in this epoch, but for the payload, which may be the request's:
	// a queue need not keep what nobody will run.
	Store(ctx context.Context, epoch QueueEpoch, request StoreRequest) (StoreResult, error)

	// Accept notes that the producer actor knows that the job is stored. It may
	// be repeated, also for a job that was compacted in this epoch; a MessageID
	// that was never stored is ErrQueueConflict (rule 70). A queue whose memory
	// is bounded remembers the latest that were compacted, more of them than
	// one batch holds: what is repeated is the last operation.
	Accept(ctx context.Context, epoch QueueEpoch, messageID string) error

	// ConfirmMessage notes that a worker did the job, as Accept notes what it
	// notes. A job that is both accepted and confirmed may be compacted, and
	// no other (rule 71).
	ConfirmMessage(ctx context.Context, epoch QueueEpoch, messageID string) error
}

// QueueEpoch numbers the loads of a queue. The zero value is none.
type QueueEpoch struct{ value uint64 }

// NewQueueEpoch returns an epoch. The error is a *MessageError for zero.
func NewQueueEpoch(value uint64) (QueueEpoch, error) {
	if value == 0 {
		return QueueEpoch{}, &MessageError{Message: "QueueEpoch", Field: "value", Reason: "is zero, wanted one or more"}
	}
	return QueueEpoch{value}, nil
}

// Value of the epoch, from 1.
func (e QueueEpoch) Value() uint64 { return e.value }

// ReliablePayload is an encoded job.
type ReliablePayload struct{ payload core.Payload }

// NewReliablePayload returns a payload of the type URL and the encoded message,
// which is copied. The error is a *MessageError for an empty type URL.
func NewReliablePayload(typeURL string, value []byte) (ReliablePayload, error) {
	if typeURL == "" {
		return ReliablePayload{}, &MessageError{Message: "ReliablePayload", Field: "typeURL", Reason: "is empty"}
	}
	return ReliablePayload{core.Payload{TypeURL: typeURL, Value: append([]byte{}, value...)}}, nil
}

// TypeURL of the message, as in google.protobuf.Any.
func (p ReliablePayload) TypeURL() string { return p.payload.TypeURL }

// Value is a copy of the encoded message.
func (p ReliablePayload) Value() []byte { return append([]byte{}, p.payload.Value...) }

// Size of the encoded message in bytes.
func (p ReliablePayload) Size() int { return len(p.payload.Value) }

// StoreRequest asks a queue to store a job.
type StoreRequest struct {
	id       string
	sequence uint64
	payload  ReliablePayload
}

// NewStoreRequest returns a request. Sequence is the proposed one, or zero in a
// batch. The error is a *MessageError for an empty MessageID or payload.
func NewStoreRequest(messageID string, sequence uint64, payload ReliablePayload) (StoreRequest, error) {
	if err := checkStored("StoreRequest", messageID, payload); err != nil {
		return StoreRequest{}, err
	}
	return StoreRequest{messageID, sequence, payload}, nil
}

func checkStored(message, id string, payload ReliablePayload) error {
	switch {
	case id == "":
		return &MessageError{Message: message, Field: "messageID", Reason: "is empty"}
	case payload.TypeURL() == "":
		return &MessageError{Message: message, Field: "payload", Reason: "is the zero value, wanted one of NewReliablePayload"}
	}
	return nil
}

// MessageID of the job.
func (r StoreRequest) MessageID() string { return r.id }

// Sequence is the proposed one, or zero where the queue gives it.
func (r StoreRequest) Sequence() uint64 { return r.sequence }

// Payload of the job.
func (r StoreRequest) Payload() ReliablePayload { return r.payload }

// StoreResult is a queue's answer to a StoreRequest.
type StoreResult struct {
	sequence uint64
	payload  ReliablePayload
	already  bool
	dropped  bool
}

// NewStoreResult returns the answer: the sequence and the payload of the first
// write, and whether that was another one. The error is a *MessageError for
// sequence zero or an empty payload.
func NewStoreResult(sequence uint64, payload ReliablePayload, alreadyStored bool) (StoreResult, error) {
	switch {
	case sequence == 0:
		return StoreResult{}, &MessageError{Message: "StoreResult", Field: "sequence", Reason: "is zero"}
	case payload.TypeURL() == "":
		return StoreResult{}, &MessageError{Message: "StoreResult", Field: "payload", Reason: "is the zero value, wanted one of NewReliablePayload"}
	}
	return StoreResult{sequence: sequence, payload: payload, already: alreadyStored}, nil
}

// Sequence of the first write.
func (r StoreResult) Sequence() uint64 { return r.sequence }

// Payload of the first write.
func (r StoreResult) Payload() ReliablePayload { return r.payload }

// AlreadyStored tells that the MessageID was stored before (rule 69).
func (r StoreResult) AlreadyStored() bool { return r.already }

// UnconfirmedMessage is a job that a queue holds.
type UnconfirmedMessage struct {
	id       string
	sequence uint64
	payload  ReliablePayload
	accepted bool
	paged    bool
	progress *JobProgress
}

// NewUnconfirmedMessage returns a job as it is stored. The error is a
// *MessageError for an empty MessageID or payload, or sequence zero.
func NewUnconfirmedMessage(messageID string, sequence uint64, payload ReliablePayload, accepted bool) (UnconfirmedMessage, error) {
	if err := checkStored("UnconfirmedMessage", messageID, payload); err != nil {
		return UnconfirmedMessage{}, err
	}
	if sequence == 0 {
		return UnconfirmedMessage{}, &MessageError{Message: "UnconfirmedMessage", Field: "sequence", Reason: "is zero"}
	}
	return UnconfirmedMessage{id: messageID, sequence: sequence, payload: payload, accepted: accepted}, nil
}

// MessageID of the job.
func (m UnconfirmedMessage) MessageID() string { return m.id }

// Sequence of the job in the order of stored jobs.
func (m UnconfirmedMessage) Sequence() uint64 { return m.sequence }

// Payload of the job, the zero value where it is Paged.
func (m UnconfirmedMessage) Payload() ReliablePayload { return m.payload }

// Accepted tells whether Accept was called for it (B1).
func (m UnconfirmedMessage) Accepted() bool { return m.accepted }

// WorkQueueState is what a queue holds when it is loaded.
type WorkQueueState struct {
	cursor   uint64
	messages []UnconfirmedMessage
}

// NewWorkQueueState returns a state that rule 67 allows: sequences ascend and
// stay at or below the cursor, MessageIDs are unique; there may be holes.
// Anything else is ErrQueueConflict. The slice is copied.
func NewWorkQueueState(cursor uint64, messages []UnconfirmedMessage) (WorkQueueState, error) {
	s := WorkQueueState{cursor: cursor, messages: append([]UnconfirmedMessage(nil), messages...)}
	check := core.NewStateCheck(cursor, len(messages))
	for i := range s.messages {
		m := &s.messages[i]
		if err := check.Next(m.id, m.sequence, m.paged || m.payload.payload.TypeURL != ""); err != nil {
			return WorkQueueState{}, fmt.Errorf("queue state: %w", err)
		}
	}
	return s, nil
}

// Cursor is the last sequence that was given, 0 when there was none.
func (s WorkQueueState) Cursor() uint64 { return s.cursor }

// Len is how many jobs there are.
func (s WorkQueueState) Len() int { return len(s.messages) }

// Messages is a copy of the jobs, in ascending order of their sequence.
func (s WorkQueueState) Messages() []UnconfirmedMessage {
	return append([]UnconfirmedMessage(nil), s.messages...)
}

// state is the core's form.
func (s WorkQueueState) state() core.QueueState {
	state := core.QueueState{Cursor: s.cursor, Jobs: make([]core.StoredJob, len(s.messages)), Valid: true} // there is no other way to make one
	for i, m := range s.messages {
		state.Jobs[i] = core.StoredJob{ID: m.id, Sequence: m.sequence, Payload: m.payload.payload, Accepted: m.accepted, Paged: m.paged}
	}
	return state
}

// WorkBatch is one commit of a BatchWorkQueue.
type WorkBatch struct {
	stores            []StoreRequest
	accepts, confirms []string
}

// NewWorkBatch returns a batch of stores, then accepts, then confirmations. The
// slices are copied.
func NewWorkBatch(stores []StoreRequest, accepts, confirms []string) WorkBatch {
	return WorkBatch{append([]StoreRequest(nil), stores...), append([]string(nil), accepts...), append([]string(nil), confirms...)}
}

// Stores is a copy of the requests.
func (b WorkBatch) Stores() []StoreRequest { return append([]StoreRequest(nil), b.stores...) }

// Accepts is a copy of the MessageIDs to accept.
func (b WorkBatch) Accepts() []string { return append([]string(nil), b.accepts...) }

// Confirms is a copy of the MessageIDs to confirm.
func (b WorkBatch) Confirms() []string { return append([]string(nil), b.confirms...) }
