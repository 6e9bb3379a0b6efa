package postgres

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpull/operator/queue/internal/failpoint"
	"github.com/workpull/operator/workpull"
)

// States of a job, as the column of that name sums them.
const (
	stateAccepted  int16 = 1
	stateConfirmed int16 = 2
	stateDropped   int16 = 4
	stateCompleted       = stateAccepted | stateConfirmed
)

// statementBytes is how many bytes of jobs go into one statement: the server
// holds several copies of it, and takes no more than a GiB. What is more goes in
// several, all in one transaction.
const statementBytes = 32 << 20

// keyOf is what a job is found by: its MessageID, where that is short, else the
// SHA-512 of it, which no MessageID that is its own key is as long as. That two
// long MessageIDs have the same one is taken for impossible.
func keyOf(messageID string) (key, id []byte) {
	if len(messageID) < sha512.Size {
		return []byte(messageID), []byte{}
	}
	digest := sha512.Sum512([]byte(messageID))
	return digest[:], []byte(messageID)
}

// statement is what one call of commit_1 does.
type statement struct {
	keys, ids, types, payloads [][]byte
	marked                     [][]byte
	bits                       []int16
	named                      []string // the MessageIDs of keys, then those of marked
}

// newStatement has no nil in it, which would be NULL.
func newStatement() *statement {
	return &statement{keys: [][]byte{}, ids: [][]byte{}, types: [][]byte{}, payloads: [][]byte{}, marked: [][]byte{}, bits: []int16{}}
}

// planned is a batch as statements, and how to tell its results.
type planned struct {
	statements []*statement
	stores     []workpull.StoreRequest
	// place is where each store is among the distinct ones, and first which
	// store that is.
	place []int
	first []int
}

// plan lays a batch out: no MessageID comes twice in a part of it.
func plan(batch workpull.WorkBatch) (*planned, error) {
	p := &planned{stores: batch.Stores()}
	s := newStatement()
	p.statements = []*statement{s}
	size := 0
	places := make(map[string]int, len(p.stores))
	p.place = make([]int, len(p.stores))
	for i, r := range p.stores {
		id, payload := r.MessageID(), r.Payload()
		if id == "" || payload.TypeURL() == "" { // the zero request
			return nil, fmt.Errorf("request without a MessageID or payload: %w", workpull.ErrQueueConflict)
		}
		place, twice := places[id]
		if !twice {
			place = len(p.first)
			places[id] = place
			p.first = append(p.first, i)
			if size += len(id) + len(payload.TypeURL()) + payload.Size(); size > statementBytes && len(s.keys) > 0 {
				s = newStatement()
				p.statements = append(p.statements, s)
				size = len(id) + payload.Size()
			}
			s.store(id, payload)
		}
		p.place[i] = place
	}
	marks := map[string]int{}
	mark := func(ids []string, bit int16) {
		for _, id := range ids {
			at, twice := marks[id]
			if !twice {
				at = len(s.marked)
				marks[id] = at
				key, _ := keyOf(id)
				s.marked, s.bits, s.named = append(s.marked, key), append(s.bits, 0), append(s.named, id)
			}
			s.bits[at] |= bit
		}
	}
	mark(batch.Accepts(), stateAccepted)
	mark(batch.Confirms(), stateConfirmed)
	return p, nil
}

func (s *statement) store(id string, payload workpull.ReliablePayload) {
	key, long := keyOf(id)
	s.keys, s.ids = append(s.keys, key), append(s.ids, long)
	s.types, s.payloads = append(s.types, []byte(payload.TypeURL())), append(s.payloads, payload.Value())
	s.named = append(s.named, id)
}

// written is what the server tells of a distinct store.
type written struct {
	sequence          int64
	already           bool
	state             int16
	typeURL, contents []byte
}

// number is an epoch as the server has it: zero, which no epoch is, for one that
// it cannot have.
func number(epoch workpull.QueueEpoch) int64 {
	if epoch.Value() >= 1<<63 {
		return 0
	}
	return int64(epoch.Value())
}

// commit carries out all of a batch or nothing. Proposed is the sequence of the
// only store, nil where the queue gives it (rule 68).
func (q *Queue) commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch, proposed *int64) ([]workpull.StoreResult, error) {
	p, err := plan(batch)
	if err != nil {
		return nil, err
	}
	var all []written
	err = q.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		all = all[:0]
		failpoint.Hit("postgres-before-commit")
		defer failpoint.Hit("postgres-after-commit")
		if len(p.statements) == 1 {
			return q.execute(ctx, conn, epoch, p.statements[0], proposed, &all)
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, s := range p.statements {
				if err := q.execute(ctx, tx, epoch, s, proposed, &all); err != nil {
					return err
				}
				failpoint.Hit("postgres-between-statements")
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return p.results(all)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}

const commitSQL = "SELECT before, known, sequences, states, types, payloads FROM workpull.commit_1($1, $2, $3, $4, $5, $6, $7, $8, $9)"

// execute does one statement, and appends what became of its stores.
func (q *Queue) execute(ctx context.Context, conn querier, epoch workpull.QueueEpoch, s *statement, proposed *int64, all *[]written) error {
	var before int64
	var known []int32
	var sequences []int64
	var states []int16
	var types, payloads [][]byte
	err := conn.QueryRow(ctx, commitSQL,
		q.address.flow, number(epoch), proposed, s.keys, s.ids, s.types, s.payloads, s.marked, s.bits,
	).Scan(&before, &known, &sequences, &states, &types, &payloads)
	if err != nil {
		return naming(err, s.named)
	}
	found := make(map[int]int, len(known)) // by place, from 1
	for i, place := range known {
		found[int(place)] = i
	}
	for place := range s.keys {
		if i, ok := found[place+1]; ok {
			*all = append(*all, written{sequences[i], true, states[i], types[i], payloads[i]})
			continue
		}
		before++
		*all = append(*all, written{sequence: before})
	}
	return nil
}

// naming adds which job a conflict is about, of those of the request.
func naming(err error, ids []string) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != codeConflict {
		return err
	}
	place, bad := strconv.Atoi(e.Detail)
	if bad != nil || place < 1 || place > len(ids) {
		return err
	}
	return fmt.Errorf("job %q %s: %w", ids[place-1], e.Message, workpull.ErrQueueConflict)
}

// results tells of each store what was written first (rule 69).
func (p *planned) results(all []written) ([]workpull.StoreResult, error) {
	results := make([]workpull.StoreResult, len(p.stores))
	for i := range p.stores {
		w := all[p.place[i]]
		first := p.first[p.place[i]]
		already := w.already || first != i
		payload := p.stores[first].Payload()
		var err error
		switch {
		case w.already && w.state&stateCompleted == stateCompleted:
			payload = p.stores[i].Payload() // what nobody will run is not kept
		case w.already:
			if payload, err = workpull.NewReliablePayload(string(w.typeURL), w.contents); err != nil {
				return nil, fmt.Errorf("job %q: %w: %w", p.stores[i].MessageID(), workpull.ErrQueueConflict, err)
			}
		}
		if results[i], err = workpull.NewStoreResult(uint64(w.sequence), payload, already); err != nil {
			return nil, fmt.Errorf("job %q: %w: %w", p.stores[i].MessageID(), workpull.ErrQueueConflict, err)
		}
		if w.state&stateConfirmed != 0 && w.state&stateDropped != 0 {
			results[i] = results[i].AsDropped()
		}
	}
	return results, nil
}
