package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpull/operator/workpull"
)

// Codes of what the functions of the schema raise.
const (
	codeFenced   = "WP001"
	codeConflict = "WP002"
)

// Codes of PostgreSQL that tell that nothing was done.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	// codeReadOnly: this server is a standby now.
	codeReadOnly = "25006"
)

// How often an operation is tried that certainly was not carried out. The
// controller goes on with a policy of its own.
const (
	// triesOfConnecting: a server that restarts takes longer than all of them.
	triesOfConnecting = 3
	triesOfConflict   = 20
	firstPause        = 5 * time.Millisecond // doubles
	longestPause      = 200 * time.Millisecond
)

// unsent is an error before anything was sent.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// run does an operation on a connection, again while it certainly was not
// carried out and may be the next time: a repeat of one that perhaps was would
// tell of a first write that it is known.
func (q *Queue) run(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := q.once(ctx, do)
		if err == nil || ctx.Err() != nil || try >= tries(err) {
			return judged(err)
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return judged(err)
		}
		pause = min(2*pause, longestPause)
	}
}

func (q *Queue) once(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := q.connections()
	if err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	pooled, err := p.Acquire(ctx)
	if err != nil {
		return unsent{err}
	}
	defer pooled.Release()
	conn := pooled.Conn()
	err = do(ctx, conn)
	notes := conn.PgConn().CustomData()
	if notes[doubt] != nil {
		delete(notes, doubt)
		if err == nil {
			err = ErrNotReplicated
		}
	}
	if code(err) == codeReadOnly {
		// The server went from primary to standby under the connection: another
		// host of the URL may be the primary.
		_ = conn.Close(ctx)
	}
	return err
}

// tries is how often an operation may be tried that ended so.
func tries(err error) int {
	var before unsent
	switch c := code(err); {
	case c == codeSerialization, c == codeDeadlock:
		return triesOfConflict
	case c == codeReadOnly:
		return triesOfConnecting
	case !errors.As(err, &before) && !pgconn.SafeToRetry(err):
		return 1
	case strings.HasPrefix(c, "28"), c == "3D000", c == "42501": // password, database, rights
		return 1
	}
	return triesOfConnecting
}

// code of an error of the server, "" for another.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// judged is the error as the contract has it.
func judged(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case codeFenced:
		return fmt.Errorf("%s: %w", e.Message, workpull.ErrQueueFenced)
	case codeConflict:
		return fmt.Errorf("%s: %w", e.Message, workpull.ErrQueueConflict)
	}
	return err
}
