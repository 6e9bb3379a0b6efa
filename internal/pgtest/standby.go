package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a streaming standby of the server, which is synchronous where
// the server's synchronous_standby_names has its name. It ends with the test.
func (s *Server) Standby(t testing.TB, name string) *Server {
	t.Helper()
	standby, err := s.standby(t, name)
	t.Cleanup(func() { standby.remove(t.Errorf) })
	if err != nil {
		t.Fatalf("make a standby: %v", err)
	}
	return standby
}

func (s *Server) standby(t testing.TB, name string) (*Server, error) {
	standby, err := blank(t)
	if err != nil {
		return standby, err
	}
	from := fmt.Sprintf("host=%s port=%d user=%s application_name=%s", s.folder, s.Port, Superuser, name)
	if err := standby.run("pg_basebackup", "-D", standby.data(), "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return standby, err
	}
	err = standby.Configure(fmt.Sprintf("unix_socket_directories = '%s'", standby.folder), "synchronous_standby_names = ''")
	if err != nil {
		return standby, err
	}
	return standby, standby.Start()
}

// Promote makes a primary of the standby, and returns once it takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", fmt.Sprintf("SELECT pg_promote(true, %d)", int(patience.Seconds())))
}

// Until runs a query, which returns one boolean, until it returns true.
func (s *Server) Until(t testing.TB, database, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.SocketURL(database))
	if err != nil {
		t.Fatalf("connect to %s: %v", database, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var so bool
		if err := conn.QueryRow(ctx, query).Scan(&so); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if so {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: does not become true", query)
		}
	}
}
