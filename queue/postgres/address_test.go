package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

const secret = "s3cr3t"

// TestBadAddresses: an address that cannot be used is refused by whatever is
// done, with ErrAddress, and without a word of it.
func TestBadAddresses(t *testing.T) {
	good := "postgres://u:" + secret + "@127.0.0.1:1/db"
	for name, at := range map[string][2]string{
		"no URL":               {"host=127.0.0.1 user=u password=" + secret, "f"},
		"empty":                {"", "f"},
		"slash in a password":  {"postgres://u:" + secret + "/" + secret + "@127.0.0.1/db", "f"},
		"at in a password":     {"postgres://u:" + secret + "@" + secret + "@127.0.0.1/db", "f"},
		"password and no host": {"postgres://u:" + secret + "/db", "f"},
		"bad escape":           {"postgres://u:%zz" + secret + "@127.0.0.1/db", "f"},
		"bad parameter":        {"postgres://u@127.0.0.1/db?%zz=" + secret, "f"},
		"bad sslmode":          {"postgres://u:" + secret + "@127.0.0.1/db?sslmode=never", "f"},
		"no flow":              {good, ""},
		"long flow":            {good, strings.Repeat("x", 256)},
		"flow with NUL":        {good, "a\x00b"},
		"flow of no UTF-8":     {good, "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			q := open(t, at[0], at[1])
			_, _, err := q.Load(t.Context())
			if !errors.Is(err, postgres.ErrAddress) || strings.Contains(err.Error(), secret) {
				t.Errorf("load: %v", err)
			}
			data, err := q.MarshalBinary()
			if strings.Contains(string(data), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("marshalled %q: %v", data, err)
			}
			if err := postgres.Migrate(t.Context(), at[0]); at[0] != good && (err == nil || strings.Contains(err.Error(), secret)) {
				t.Errorf("migrate: %v", err)
			}
		})
	}
	var zero postgres.Queue
	if _, _, err := zero.Load(t.Context()); !errors.Is(err, postgres.ErrAddress) {
		t.Errorf("load of the zero value: %v", err)
	}
}

// TestRule72Password: the password of a URL does not travel, wherever in the URL
// it is. The queue that comes back has that of the process, or none.
func TestRule72Password(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t)
	at, name, _ := strings.Cut(strings.TrimPrefix(url, "postgres://"), "@")
	_, password, _ := strings.Cut(at, ":")
	for _, whole := range []string{url, "postgresql://" + name + "&user=postgres&pass%77ord=" + password + "&application_name=two"} {
		q := open(t, whole, "travels")
		data, err := q.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range []string{"correct", "horse", password} {
			if strings.Contains(string(data), found) {
				t.Errorf("%q is in %q", found, data)
			}
		}
		var twin postgres.Queue
		if err := twin.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		holds(t, &twin)
		if twin.ID() != q.ID() {
			t.Errorf("ID %s, and %s of what came back", q.ID(), twin.ID())
		}
		if err := twin.UnmarshalBinary(data); !errors.Is(err, postgres.ErrAddress) {
			t.Errorf("unmarshal into a queue in use: %v", err)
		}
		if err := twin.Close(); err != nil {
			t.Error(err)
		}
		if _, _, err := twin.Load(t.Context()); !errors.Is(err, postgres.ErrClosed) {
			t.Errorf("load of a closed queue: %v", err)
		}
		// Where nobody gave a password, that of the environment is taken.
		var stranger postgres.Queue
		if err := stranger.UnmarshalBinary([]byte(strings.Replace(string(data), "sslmode=disable", "sslmode=disable\\u0026search_path=x", 1))); err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		if _, _, err := stranger.Load(t.Context()); err == nil {
			t.Error("a queue without a password got in")
		}
		t.Setenv("PGPASSWORD", pgtest.Password)
		var friend postgres.Queue
		if err := friend.UnmarshalBinary([]byte(strings.Replace(string(data), "sslmode=disable", "sslmode=disable\\u0026search_path=y", 1))); err != nil {
			t.Fatal(err)
		}
		defer friend.Close()
		holds(t, &friend)
		t.Setenv("PGPASSWORD", "")
	}
}

// TestUnreachable: a server that is not there, that does not answer, or that
// refuses, is an error within a time that has a bound, which says so and shows no
// password.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", testport.Free(t, 1)[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := pgtest.Shared(t).Database(t)
	_, at, _ := strings.Cut(url, "@")
	for name, c := range map[string]struct{ url, says string }{
		"nobody listens":   {fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/db", secret, testport.Free(t, 1)[0]), "refused"},
		"nobody answers":   {fmt.Sprintf("postgres://u:%s@%s/db?connect_timeout=1", secret, silent.Addr()), "timeout"},
		"wrong password":   {"postgres://postgres:" + secret + "@" + at, "password authentication failed"},
		"no such user":     {"postgres://nobody:" + secret + "@" + at, "password authentication failed"},
		"no such database": {strings.Replace(url, database(t, url), "missing", 1), "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			q := open(t, c.url, "f")
			_, _, err := q.Load(ctx)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "horse") {
				t.Errorf("load: %v, wanted one that says %q", err, c.says)
			}
			if ctx.Err() != nil || errors.Is(err, workpull.ErrQueueFenced) || errors.Is(err, workpull.ErrQueueConflict) {
				t.Errorf("load: %v, the context: %v", err, ctx.Err())
			}
			soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, _, err := q.Load(soon); err == nil {
				t.Error("load succeeds the second time")
			}
		})
	}
}
