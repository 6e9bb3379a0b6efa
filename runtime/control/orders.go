package control

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/runtime/control/controlpb"
)

// Bounds of what a call may carry.
const (
	maxIdentities  = 1000
	maxIdentity    = 512 // bytes
	maxJobID       = 64 << 10
	maxUID         = 256
	maxLetters     = 1000
	defaultLetters = 100
	lettersBytes   = 3 << 20
)

// Retire implements controlpb.ControlServer. One that fails in the middle may be
// asked again: to retire a worker twice is to retire it once.
func (s *server) Retire(ctx context.Context, r *controlpb.RetireRequest) (*controlpb.RetireResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if err := checkIdentities(r.GetIdentities()); err != nil {
		return nil, err
	}
	answer := &controlpb.RetireResponse{}
	for _, identity := range r.GetIdentities() {
		retired, err := s.source.Retire(ctx, identity)
		if err != nil {
			return nil, refusal(err)
		}
		answer.Workers = append(answer.Workers, &controlpb.Retirement{
			Identity: identity, Known: &retired.Known, Held: number(retired.Held), Session: &retired.Session,
		})
	}
	return answer, nil
}

// Release implements controlpb.ControlServer.
func (s *server) Release(ctx context.Context, r *controlpb.ReleaseRequest) (*controlpb.ReleaseResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if err := checkIdentities(r.GetIdentities()); err != nil {
		return nil, err
	}
	for _, identity := range r.GetIdentities() {
		if err := s.source.Release(ctx, identity); err != nil {
			return nil, refusal(err)
		}
	}
	return &controlpb.ReleaseResponse{}, nil
}

// WorkerGone implements controlpb.ControlServer.
func (s *server) WorkerGone(ctx context.Context, r *controlpb.WorkerGoneRequest) (*controlpb.WorkerGoneResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	for what, v := range map[string]string{"pod_uid": r.GetPodUid(), "boot_nonce": r.GetBootNonce()} {
		if len(v) > maxUID || strings.Contains(v, "/") || v == "" && (what == "pod_uid" || r.BootNonce != nil) {
			return nil, status.Errorf(codes.InvalidArgument, "%s: is %q, wanted 1 to %d bytes without a slash", what, Cut(v, maxText), maxUID)
		}
	}
	n, err := s.source.Gone(ctx, r.GetPodUid(), r.GetBootNonce())
	if err != nil {
		return nil, refusal(err)
	}
	return &controlpb.WorkerGoneResponse{Workers: number(Some(n))}, nil
}

// Explain implements controlpb.ControlServer.
func (s *server) Explain(ctx context.Context, r *controlpb.ExplainRequest) (*controlpb.ExplainResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if err := checkText("job_id", r.GetJobId(), maxJobID); err != nil {
		return nil, err
	}
	j, err := s.source.Explain(ctx, r.GetJobId())
	if err != nil {
		return nil, refusal(err)
	}
	return &controlpb.ExplainResponse{
		State: j.State, Worker: text(valid(j.Worker)), Attempt: small(j.Attempt), Interruptions: small(j.Interruptions),
		History: encodeHistory(j.History), DueUnixMs: millis(j.Due), Alone: pointer(j.Alone),
	}, nil
}

// ListDeadLetters implements controlpb.ControlServer.
func (s *server) ListDeadLetters(ctx context.Context, r *controlpb.ListDeadLettersRequest) (*controlpb.ListDeadLettersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	limit := defaultLetters
	if r.Limit != nil {
		limit = int(r.GetLimit())
	}
	if limit < 1 || limit > maxLetters {
		return nil, status.Errorf(codes.InvalidArgument, "limit: is %d, wanted 1 to %d", limit, maxLetters)
	}
	letters, err := s.source.DeadLetters(ctx, limit+1) // one more tells whether there is more
	if err != nil {
		return nil, refusal(err)
	}
	answer := &controlpb.ListDeadLettersResponse{}
	more, size := false, 0
	for i := range letters {
		l := &letters[i]
		encoded := &controlpb.DeadLetter{
			JobId: valid(l.ID), StoreSequence: pointer(l.StoreSequence), Attempts: small(l.Attempts), Interruptions: small(l.Interruptions),
			History: encodeHistory(l.History), TypeUrl: text(valid(l.TypeURL)), PayloadBytes: pointer(l.PayloadBytes),
		}
		if size += proto.Size(encoded); i == limit || i > 0 && size > lettersBytes {
			more = true
			break
		}
		answer.Letters = append(answer.Letters, encoded)
	}
	answer.More = &more
	return answer, nil
}

// Redrive implements controlpb.ControlServer.
func (s *server) Redrive(ctx context.Context, r *controlpb.RedriveRequest) (*controlpb.RedriveResponse, error) {
	if err := s.dead(ctx, r.GetJobId(), s.source.Redrive); err != nil {
		return nil, err
	}
	return &controlpb.RedriveResponse{}, nil
}

// Drop implements controlpb.ControlServer.
func (s *server) Drop(ctx context.Context, r *controlpb.DropRequest) (*controlpb.DropResponse, error) {
	if err := s.dead(ctx, r.GetJobId(), s.source.Drop); err != nil {
		return nil, err
	}
	return &controlpb.DropResponse{}, nil
}

func (s *server) dead(ctx context.Context, id string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if err := checkText("job_id", id, maxJobID); err != nil {
		return err
	}
	if err := do(ctx, id); err != nil {
		return refusal(err)
	}
	return nil
}

// refusal is an error of the source as gRPC has it.
func refusal(err error) error {
	switch {
	case errors.Is(err, ErrUnknownJob), errors.Is(err, ErrNoDeadLetter):
		return status.Error(codes.NotFound, Cut(err.Error(), maxReason))
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, Cut(err.Error(), maxReason))
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, Cut(err.Error(), maxReason))
	}
	return status.Error(codes.Unavailable, Cut(err.Error(), maxReason))
}

func checkIdentities(identities []string) error {
	if n := len(identities); n == 0 || n > maxIdentities {
		return status.Errorf(codes.InvalidArgument, "identities: there are %d, wanted 1 to %d", n, maxIdentities)
	}
	for _, identity := range identities {
		if err := checkText("identities", identity, maxIdentity); err != nil {
			return err
		}
	}
	return nil
}

func checkText(what, v string, longest int) error {
	if v == "" || len(v) > longest || !utf8.ValidString(v) {
		return status.Errorf(codes.InvalidArgument, "%s: %q has %d bytes, wanted UTF-8 of 1 to %d bytes", what, Cut(v, maxText), len(v), longest)
	}
	return nil
}
