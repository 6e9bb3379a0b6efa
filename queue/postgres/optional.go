package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpull/operator/workpull"
)

// ErrPage tells that more payloads were asked for than workpull.MaxPage.
var ErrPage = errors.New("too many payloads at once")

// Payloads implements workpull.PagingWorkQueue. A job that is accepted and
// confirmed has none any more, which is ErrQueueConflict; more than
// workpull.MaxPage are ErrPage.
func (q *Queue) Payloads(ctx context.Context, epoch workpull.QueueEpoch, messageIDs []string) ([]workpull.ReliablePayload, error) {
	payloads, err := q.page(ctx, epoch, messageIDs)
	return payloads, q.failed("read payloads of", err)
}

func (q *Queue) page(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	if len(ids) > workpull.MaxPage {
		return nil, fmt.Errorf("%d of %d: %w", len(ids), workpull.MaxPage, ErrPage)
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i], _ = keyOf(id)
	}
	var payloads []workpull.ReliablePayload
	err := q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT place, type_url, payload FROM workpull.payloads_1($1, $2, $3)", q.address.flow, number(epoch), keys)
		if err != nil {
			return err
		}
		payloads, err = collect(rows, len(ids))
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, p := range payloads {
		if p.TypeURL() == "" {
			return nil, fmt.Errorf("job %q is not stored: %w", ids[i], workpull.ErrQueueConflict)
		}
	}
	return payloads, nil
}

// SaveProgress implements workpull.AttemptWorkQueue. Of two of one job the
// later counts.
func (q *Queue) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	return q.failed("save progress in", q.save(ctx, epoch, progress))
}

func (q *Queue) save(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	keys, values, dropped := [][]byte{}, [][]byte{}, []bool{}
	var ids []string
	seen := make(map[string]bool, len(progress))
	for _, p := range slices.Backward(progress) {
		id := p.MessageID()
		switch {
		case id == "": // the zero value
			return fmt.Errorf("progress without a MessageID: %w", workpull.ErrQueueConflict)
		case seen[id]:
			continue
		}
		seen[id] = true
		value, err := p.MarshalJSON()
		if err != nil {
			return fmt.Errorf("write the progress of job %q: %w", id, err)
		}
		key, _ := keyOf(id)
		keys, values, dropped = append(keys, key), append(values, value), append(dropped, p.Fate() == workpull.FateDropped)
		ids = append(ids, id)
	}
	return q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := q.settle(ctx); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT workpull.progress_1($1, $2, $3, $4, $5)", q.address.flow, number(epoch), keys, values, dropped)
		q.unsettled(conn)
		return naming(err, ids)
	})
}

// KeepCompleted implements workpull.DeduplicatingWorkQueue, to the microsecond.
// A window below zero is zero. Time is the clock of the server.
func (q *Queue) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	kept := (max(0, window) + time.Microsecond - 1) / time.Microsecond
	err := q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := q.settle(ctx); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "SELECT workpull.keep_1($1, $2, $3)", q.address.flow, number(epoch), int64(kept))
		q.unsettled(conn)
		return err
	})
	return q.failed("keep completed jobs of", err)
}

// Completed implements workpull.DeduplicatingWorkQueue.
func (q *Queue) Completed(ctx context.Context, messageID string) (workpull.CompletedMessage, bool, error) {
	message, known, err := q.completed(ctx, messageID)
	return message, known, q.failed("look for a completed job in", err)
}

func (q *Queue) completed(ctx context.Context, id string) (message workpull.CompletedMessage, known bool, err error) {
	key, _ := keyOf(id)
	var sequence int64
	var state int16
	var at time.Time
	err = q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT sequence, state, confirmed_at FROM workpull.completed_1($1, $2)", q.address.flow, key).Scan(&sequence, &state, &at)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return message, false, nil
	}
	if err == nil {
		message, err = workpull.NewCompletedMessage(uint64(sequence), at, state&stateDropped != 0)
	}
	return message, err == nil, err
}

// unsettled remembers a connection that was cut off in the middle of a write,
// which the server may not have carried out yet.
func (q *Queue) unsettled(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cutOff = conn.PgConn().CleanupDone()
}

// settle waits until the server has done or given up what was cut off. A store
// or a mark that comes late repeats what is known; a late progress or window
// would take the place of a later one.
func (q *Queue) settle(ctx context.Context) error {
	q.mu.Lock()
	over := q.cutOff
	q.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
