package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpull/operator/queue/internal/failpoint"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrations of this package, as numbered files. One that was released is never
// changed.
func migrations() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil { // the name is a constant
		panic(err)
	}
	return files
}

// lock of the database under which it is migrated: any number that nobody else
// uses.
const lock = 0x776f726b70756c6c // "workpull"

// Migrate brings the schema workpull of the database to the version of this
// package, so that queues need not be allowed to. It is what a queue does when
// it is first used; docs/operations.md tells who may do what. The error is
// ErrNewerSchema for a database that is ahead, and ErrAddress for a URL that
// cannot be used.
func Migrate(ctx context.Context, url string) error {
	if _, reason := withoutPassword(url); reason != "" {
		return fmt.Errorf("migrate: %w: %s", ErrAddress, reason)
	}
	c, err := configure(url)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return migrate(ctx, conn, migrations())
}

// migrate carries out what the database has not seen, each file in a
// transaction of its own.
func migrate(ctx context.Context, conn *pgx.Conn, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql") // in order
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	for i, name := range names {
		if number, _, _ := strings.Cut(name, "_"); number != fmt.Sprintf("%04d", i+1) {
			return fmt.Errorf("migration %s is the %dth", name, i+1)
		}
	}
	version, err := version(ctx, conn)
	for err == nil && version < len(names) {
		version, err = step(ctx, conn, files, names)
	}
	if err == nil && version > len(names) {
		err = fmt.Errorf("it has version %d, this program knows up to %d: %w", version, len(names), ErrNewerSchema)
	}
	if err != nil {
		return fmt.Errorf("migrate the schema workpull: %w", err)
	}
	return nil
}

// version of the schema, 0 where there is none.
func version(ctx context.Context, conn interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}) (int, error) {
	// Not to_regclass, which may not have heard of what was committed while the
	// lock was waited for.
	const exists = "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'workpull' AND c.relname = 'migrations')"
	var there bool
	if err := conn.QueryRow(ctx, exists).Scan(&there); err != nil || !there {
		return 0, err
	}
	var version int
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM workpull.migrations").Scan(&version)
	return version, err
}

// step carries out the next migration, unless another process was quicker, and
// returns the version that is reached.
func step(ctx context.Context, conn *pgx.Conn, files fs.FS, names []string) (reached int, err error) {
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock)); err != nil {
			return err
		}
		if reached, err = version(ctx, tx); err != nil || reached >= len(names) {
			return err
		}
		if reached == 0 {
			// Asked for only where it is missing: it takes the right to create
			// schemas even where there is nothing to create.
			const first = "CREATE TABLE workpull.migrations (version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
			if err := schema(ctx, tx); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, first); err != nil {
				return err
			}
		}
		name := names[reached]
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		reached++
		_, err = tx.Exec(ctx, "INSERT INTO workpull.migrations (version, name) VALUES ($1, $2)", reached, name)
		failpoint.Hit("postgres-migration-before-commit")
		return err
	})
	failpoint.Hit("postgres-migration-after-commit")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		err = fmt.Errorf("the role %s may not (let one that may call Migrate, docs/operations.md): %w", strconv.Quote(conn.Config().User), err)
	}
	return reached, err
}

// schema makes the schema unless somebody made it for us.
func schema(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'workpull')").Scan(&there)
	if err == nil && !there {
		_, err = tx.Exec(ctx, "CREATE SCHEMA workpull")
	}
	return err
}
