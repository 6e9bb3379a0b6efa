// Package postgres is a durable work queue in PostgreSQL, from version 15 on.
//
//	queue := postgres.New("postgres://workpull@db-1,db-2/jobs?target_session_attrs=read-write", "thumbnails")
//	defer queue.Close()
//	dispatcher, err := workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{},
//		workpull.AsReliableWorkPullingProducer(
//			workpull.WithReliableDurableWorkQueue(queue)))
//
// A database holds any number of flows, which have nothing to do with each
// other; each is the queue of one producer endpoint. The tables lie in the
// schema workpull, and are made and migrated when a queue is first used, or by
// Migrate.
//
// One operation is one round trip, and one transaction that locks the row of
// its flow first and writes only if that has the writer's epoch. So of two
// writers the later one wins, whatever the earlier one still has on its way
// (rule 65). Whatever is acknowledged is as safe as the server makes it:
// sessions set synchronous_commit to on, and docs/operations.md tells what a
// standby adds to that.
//
// Of jobs that are both accepted and confirmed the latest 8192 stay known, for
// as long as nobody loads the queue, and those that KeepCompleted keeps.
package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/workpull/operator/workpull"
)

// Errors of this package.
var (
	// ErrAddress: the URL or the name of the flow cannot be used. The message
	// tells why, and never shows the URL.
	ErrAddress = errors.New("bad address of a queue in PostgreSQL")
	// ErrNotPostgres: the bytes are not what MarshalBinary of a Queue returned.
	ErrNotPostgres = errors.New("not a queue in PostgreSQL")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("queue in PostgreSQL is closed")
	// ErrNewerSchema: a newer version of this package migrated the database.
	ErrNewerSchema = errors.New("the database was migrated by a newer version")
	// ErrNotReplicated: the server committed, and gave up waiting for its
	// synchronous standby. Nobody knows whether that has it.
	ErrNotReplicated = errors.New("the commit may not be on the standby")
)

// DefaultLoadBudget is how many bytes of payloads Load returns.
const DefaultLoadBudget = 16 << 20

// Queue is a writer of a flow. It is safe for concurrent use, but for
// UnmarshalBinary.
//
// Queues of the same URL in one process share their connections, which the last
// of them closes.
type Queue struct {
	address address
	budget  int64 // bytes

	mu     sync.Mutex
	pool   *pool // once it was used
	closed bool
	cutOff <-chan struct{} // see settle
}

var (
	_ workpull.BatchWorkQueue         = (*Queue)(nil)
	_ workpull.PagingWorkQueue        = (*Queue)(nil)
	_ workpull.AttemptWorkQueue       = (*Queue)(nil)
	_ workpull.DeduplicatingWorkQueue = (*Queue)(nil)
	_ workpull.ConditionalWorkQueue   = (*Queue)(nil)
)

// Option of a Queue.
type Option func(*Queue)

// WithLoadBudget sets how many bytes of payloads Load returns, instead of
// DefaultLoadBudget; the controller asks for the others when it needs them
// (B11). Zero leaves all of them.
func WithLoadBudget(bytes int) Option {
	return func(q *Queue) { q.budget = int64(max(0, bytes)) }
}

// New returns a writer of the flow, and opens nothing: the first operation
// connects.
//
// The URL is postgres://user:password@host:port,host:port/database?parameters,
// as libpq has it. Without a password in it, it is taken from PGPASSWORD or the
// file of PGPASSFILE. Parameters of the session, such as synchronous_commit or
// statement_timeout, come before those that this package sets, and
// pool_max_conns is how many connections there are at most. An address that
// cannot be used is refused with ErrAddress by whatever is done with the queue:
// one that is no such URL, or a flow that is empty, longer than 255 bytes, or no
// UTF-8 without NUL.
//
// A queue that travels to another node (MarshalBinary) goes without the
// password. There it is that of a URL that New was called with in that process,
// for the same user, hosts, database and parameters, and else PGPASSWORD or
// PGPASSFILE.
func New(url, flow string, options ...Option) *Queue {
	q := &Queue{address: newAddress(url, flow), budget: DefaultLoadBudget}
	for _, o := range options {
		o(q)
	}
	q.address.remember()
	return q
}

// ID names the queue among its endpoint's dependencies: "postgres-" and a digest
// of the URL without its password, and the flow.
func (q *Queue) ID() string {
	digest := sha256.Sum256([]byte(q.address.public + "\x00" + q.address.flow))
	return fmt.Sprintf("postgres-%x", digest[:12])
}

// Close gives the connections up. Operations that are on their way end first;
// later ones get ErrClosed. It may be called twice, and never fails.
func (q *Queue) Close() error {
	q.mu.Lock()
	p := q.pool
	q.pool, q.closed = nil, true
	q.mu.Unlock()
	if p != nil {
		p.release()
	}
	return nil
}

// Store implements workpull.DurableWorkQueue.
func (q *Queue) Store(ctx context.Context, epoch workpull.QueueEpoch, request workpull.StoreRequest) (workpull.StoreResult, error) {
	proposed := int64(0) // which is nobody's next, nor is what a bigint does not hold
	if request.Sequence() < 1<<63 {
		proposed = int64(request.Sequence())
	}
	results, err := q.commit(ctx, epoch, workpull.NewWorkBatch([]workpull.StoreRequest{request}, nil, nil), &proposed)
	if err != nil {
		return workpull.StoreResult{}, q.failed("store in", err)
	}
	return results[0], nil
}

// Accept implements workpull.DurableWorkQueue.
func (q *Queue) Accept(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	_, err := q.commit(ctx, epoch, workpull.NewWorkBatch(nil, []string{messageID}, nil), nil)
	return q.failed("accept in", err)
}

// ConfirmMessage implements workpull.DurableWorkQueue.
func (q *Queue) ConfirmMessage(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	_, err := q.commit(ctx, epoch, workpull.NewWorkBatch(nil, nil, []string{messageID}), nil)
	return q.failed("confirm in", err)
}

// Commit implements workpull.BatchWorkQueue. Sequences that the requests
// propose are not looked at.
func (q *Queue) Commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch) ([]workpull.StoreResult, error) {
	results, err := q.commit(ctx, epoch, batch, nil)
	return results, q.failed("commit to", err)
}

// failed says of an error what was being done.
func (q *Queue) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s flow %q: %w", doing, q.address.flow, err)
}
