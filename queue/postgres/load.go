package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/workpull/operator/queue/internal/failpoint"
	"github.com/workpull/operator/workpull"
)

// Bounds of a load.
const (
	// longestLoad is how long the server works on one whose context has no
	// deadline.
	longestLoad = 10 * time.Minute
	// pageJobs is how many payloads one statement reads.
	pageJobs = 4096
)

// Load implements workpull.DurableWorkQueue. The row of the flow stays locked
// until all is read: an older writer waits so long, and is fenced then.
func (q *Queue) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.load(ctx, nil)
	return state, epoch, q.failed("load", err)
}

// Reload implements workpull.ConditionalWorkQueue.
func (q *Queue) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	writer := number(epoch)
	state, epoch, err := q.load(ctx, &writer)
	return state, epoch, q.failed("reload", err)
}

// load begins an epoch, for the writer only if there is one.
func (q *Queue) load(ctx context.Context, writer *int64) (state workpull.WorkQueueState, epoch workpull.QueueEpoch, err error) {
	err = q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// What a repeatable read sees is older than the lock.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			state, epoch, err = q.read(ctx, tx, writer)
			failpoint.Hit("postgres-load-before-commit")
			return err
		})
	})
	failpoint.Hit("postgres-load-after-commit")
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	return state, epoch, nil
}

// read does a load within its transaction.
func (q *Queue) read(ctx context.Context, tx pgx.Tx, writer *int64) (state workpull.WorkQueueState, epoch workpull.QueueEpoch, err error) {
	patience := longestLoad
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, max(time.Until(deadline), time.Second))
	}
	if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", fmt.Sprint(patience.Milliseconds())); err != nil {
		return state, epoch, err
	}
	var flow int32
	var begun, cursor int64
	if err := tx.QueryRow(ctx, "SELECT which, begun, at_cursor FROM workpull.load_1($1, $2)", q.address.flow, writer).Scan(&flow, &begun, &cursor); err != nil {
		return state, epoch, err
	}
	failpoint.Hit("postgres-load-locked")
	jobs, err := index(ctx, tx, flow)
	if err != nil {
		return state, epoch, fmt.Errorf("read the index: %w", err)
	}
	messages, err := q.fill(ctx, tx, flow, jobs)
	if err != nil {
		return state, epoch, err
	}
	if state, err = workpull.NewWorkQueueState(uint64(cursor), messages); err != nil {
		return state, epoch, err
	}
	epoch, err = workpull.NewQueueEpoch(uint64(begun))
	return state, epoch, err
}

// indexed is a stored job without its payload.
type indexed struct {
	sequence int64
	id       string
	progress []byte
	size     int64 // of the payload, in bytes
	accepted bool
}

// index reads what is not confirmed, in order. The server does not sort it,
// which could take room on its disk that a load must do without (S34).
func index(ctx context.Context, tx pgx.Tx, flow int32) ([]indexed, error) {
	rows, err := tx.Query(ctx, `
		SELECT sequence, state, key, message_id, progress, octet_length(payload)::bigint
		FROM workpull.jobs WHERE flow = $1 AND state & 2 = 0`, flow)
	if err != nil {
		return nil, err
	}
	var jobs []indexed
	var j indexed
	var state int16
	var key, long, progress pgtype.DriverBytes // not copied
	_, err = pgx.ForEachRow(rows, []any{&j.sequence, &state, &key, &long, &progress, &j.size}, func() error {
		j.id = string(long)
		if len(long) == 0 {
			j.id = string(key)
		}
		j.progress = nil
		if len(progress) > 0 {
			j.progress = append([]byte(nil), progress...)
		}
		j.accepted = state&stateAccepted != 0
		jobs = append(jobs, j)
		return nil
	})
	slices.SortFunc(jobs, func(a, b indexed) int { return cmp.Compare(a.sequence, b.sequence) })
	return jobs, err
}

// fill makes messages of the jobs: with payloads, as long as the budget
// reaches, and then without.
func (q *Queue) fill(ctx context.Context, tx pgx.Tx, flow int32, jobs []indexed) ([]workpull.UnconfirmedMessage, error) {
	whole := 0
	for left := q.budget; whole < len(jobs) && jobs[whole].size <= left; whole++ {
		left -= jobs[whole].size
	}
	messages := make([]workpull.UnconfirmedMessage, 0, len(jobs))
	for from := 0; from < whole; from += pageJobs {
		page := jobs[from:min(from+pageJobs, whole)]
		keys := make([][]byte, len(page))
		for i, j := range page {
			keys[i], _ = keyOf(j.id)
		}
		rows, err := tx.Query(ctx, "SELECT place, type_url, payload FROM workpull.page_1($1, $2)", flow, keys)
		if err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		payloads, err := collect(rows, len(page))
		if err != nil {
			return nil, fmt.Errorf("read payloads: %w", err)
		}
		for i, j := range page {
			m, err := workpull.NewUnconfirmedMessage(j.id, uint64(j.sequence), payloads[i], j.accepted)
			if err != nil {
				return nil, fmt.Errorf("job %q: %w: %w", j.id, workpull.ErrQueueConflict, err)
			}
			messages = append(messages, m)
		}
	}
	for _, j := range jobs[whole:] {
		m, err := workpull.NewPagedMessage(j.id, uint64(j.sequence), j.accepted)
		if err != nil {
			return nil, fmt.Errorf("job %q: %w: %w", j.id, workpull.ErrQueueConflict, err)
		}
		messages = append(messages, m)
	}
	for i, j := range jobs {
		if j.progress == nil {
			continue
		}
		p, err := workpull.DecodeJobProgress(j.id, j.progress)
		if err == nil {
			messages[i], err = messages[i].WithProgress(p)
		}
		if err != nil {
			return nil, fmt.Errorf("job %q: %w: %w", j.id, workpull.ErrQueueConflict, err)
		}
	}
	return messages, nil
}

// collect reads a page of n payloads. One that is missing is the zero value.
func collect(rows pgx.Rows, n int) ([]workpull.ReliablePayload, error) {
	payloads := make([]workpull.ReliablePayload, n)
	var place int64
	var typeURL, value pgtype.DriverBytes
	_, err := pgx.ForEachRow(rows, []any{&place, &typeURL, &value}, func() error {
		p, err := workpull.NewReliablePayload(string(typeURL), value) // it copies
		if err != nil {
			return fmt.Errorf("payload: %w: %w", workpull.ErrQueueConflict, err)
		}
		payloads[place-1] = p
		return nil
	})
	return payloads, err
}
