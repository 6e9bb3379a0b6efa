package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/workpull/operator/runtime/control/controlpb"
)

const (
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 2 * time.Second
	// firstPause and lastPause are what a client waits between attempts: doubled
	// from one to the other, and shortened by up to a half at random.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Client is the operator's end of the control service of one producer. It may be
// used by several goroutines at once.
type Client struct {
	target     string
	connection *grpc.ClientConn
	api        controlpb.ControlClient
}

// Dial returns a client of the producer at a gRPC target such as
// dns:///name:port. It connects when it is used, and again whenever the
// connection is lost. The options have to name transport credentials.
func Dial(target string, options ...grpc.DialOption) (*Client, error) {
	connection, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: lastPause},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), // the producer is in the cluster
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client of the producer at %s: %w", target, err)
	}
	return &Client{target: target, connection: connection, api: controlpb.NewControlClient(connection)}, nil
}

// Close ends every call and watch.
func (c *Client) Close() error { return c.connection.Close() }

// failed wraps an error of a call.
func (c *Client) failed(what string, err error) error {
	return fmt.Errorf("%s at the producer %s: %w", what, c.target, err)
}

// Retire has the controller give nothing more to workers and returns what it
// knows of each, in their order. Only one that is Empty may be taken away, and
// only while the controller is of that session. After an error some may be
// retired: ask again, or Release them. It takes no longer than 5 s for each
// 1,000.
func (c *Client) Retire(ctx context.Context, identities ...string) ([]Retirement, error) {
	answers := make([]Retirement, 0, len(identities))
	for part := range slices.Chunk(identities, maxIdentities) {
		r, err := call(ctx, c.api.Retire, &controlpb.RetireRequest{Identities: part})
		if err != nil {
			return nil, c.failed(fmt.Sprintf("retire %d workers", len(identities)), err)
		}
		if len(r.GetWorkers()) != len(part) {
			return nil, c.failed("retire workers", fmt.Errorf("the answer has %d of %d", len(r.GetWorkers()), len(part)))
		}
		for i, w := range r.GetWorkers() {
			if w.GetIdentity() != part[i] || w.Session == nil {
				return nil, c.failed("retire "+part[i], fmt.Errorf("the answer is for %q, session known: %t", w.GetIdentity(), w.Session != nil))
			}
			answer := Retirement{Identity: part[i], Known: w.GetKnown(), Session: w.GetSession()}
			if answer.Known {
				answer.Held = fromNumber(w.Held)
			}
			answers = append(answers, answer)
		}
	}
	return answers, nil
}

// Release ends retirements. After an error some may have ended: ask again.
func (c *Client) Release(ctx context.Context, identities ...string) error {
	for part := range slices.Chunk(identities, maxIdentities) {
		if _, err := call(ctx, c.api.Release, &controlpb.ReleaseRequest{Identities: part}); err != nil {
			return c.failed(fmt.Sprintf("release %d workers", len(identities)), err)
		}
	}
	return nil
}

// WorkerGone tells of the end of a worker's process, or of all of a pod's when
// the nonce is empty. It returns how many bound workers there are of it, which
// are probed.
func (c *Client) WorkerGone(ctx context.Context, podUID, nonce string) (int, error) {
	r, err := call(ctx, c.api.WorkerGone, &controlpb.WorkerGoneRequest{PodUid: podUID, BootNonce: text(nonce)})
	if err != nil {
		return 0, c.failed("report that pod "+podUID+" is gone", err)
	}
	n, _ := fromNumber(r.Workers).Get()
	return n, nil
}

// Explain tells where a job is and why. It returns ErrUnknownJob for one that
// the controller does not hold: it was never accepted, or is done.
func (c *Client) Explain(ctx context.Context, id string) (Job, error) {
	r, err := call(ctx, c.api.Explain, &controlpb.ExplainRequest{JobId: id})
	if err != nil {
		return Job{}, c.failed("explain job "+Cut(id, maxText), notFound(err, ErrUnknownJob))
	}
	return Job{
		State: r.GetState(), Worker: r.GetWorker(), Attempt: fromSmall(r.Attempt), Interruptions: fromSmall(r.Interruptions),
		History: decodeHistory(r.GetHistory()), Due: fromMillis(r.DueUnixMs), Alone: known(r.Alone),
	}, nil
}

// DeadLetters lists at most limit dead letters, 1 to 1,000, the oldest first, and
// tells whether there are more. Fewer come where they are large.
func (c *Client) DeadLetters(ctx context.Context, limit int) (letters []DeadLetter, more bool, err error) {
	asked := uint32(max(0, min(limit, maxLetters+1)))
	r, err := call(ctx, c.api.ListDeadLetters, &controlpb.ListDeadLettersRequest{Limit: &asked})
	if err != nil {
		return nil, false, c.failed("list dead letters", err)
	}
	for _, l := range r.GetLetters() {
		letters = append(letters, DeadLetter{
			ID: l.GetJobId(), StoreSequence: known(l.StoreSequence), Attempts: fromSmall(l.Attempts), Interruptions: fromSmall(l.Interruptions),
			History: decodeHistory(l.GetHistory()), TypeURL: l.GetTypeUrl(), PayloadBytes: known(l.PayloadBytes),
		})
	}
	return letters, r.GetMore(), nil
}

// Redrive gives a dead letter all its attempts again. It returns ErrNoDeadLetter
// where there is none.
func (c *Client) Redrive(ctx context.Context, id string) error {
	if _, err := call(ctx, c.api.Redrive, &controlpb.RedriveRequest{JobId: id}); err != nil {
		return c.failed("redrive job "+Cut(id, maxText), notFound(err, ErrNoDeadLetter))
	}
	return nil
}

// Drop forgets a dead letter. It returns ErrNoDeadLetter where there is none.
func (c *Client) Drop(ctx context.Context, id string) error {
	if _, err := call(ctx, c.api.Drop, &controlpb.DropRequest{JobId: id}); err != nil {
		return c.failed("drop job "+Cut(id, maxText), notFound(err, ErrNoDeadLetter))
	}
	return nil
}

// call makes a call with a deadline. It fails at once where there is no
// connection: whoever calls decides by what is known then.
func call[Q, A any](ctx context.Context, do func(context.Context, *Q, ...grpc.CallOption) (*A, error), question *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	return do(ctx, question)
}

// notFound is NOT_FOUND as an error that a caller can look for.
func notFound(err, sentinel error) error {
	if status.Code(err) == codes.NotFound {
		return errors.Join(sentinel, err)
	}
	return err
}
