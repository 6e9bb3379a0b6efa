// Package pgtest runs PostgreSQL servers of a test's own, from the programs of
// Debian's package: real ones, which sync to disk, and which a test may kill,
// fill up and promote. No service of the system is used or touched.
//
// A package's tests share one server:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestQueue(t *testing.T) {
//		url := pgtest.Shared(t).Database(t)
//
// A test that ends or changes its server starts one with New.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpull/operator/internal/testport"
)

// Superuser of the servers, and its password. Over the socket none is asked for.
const (
	Superuser = "postgres"
	Password  = "correct horse"
)

// patience is how long a server may take to start or to end: far more than one
// does on a machine that is busy.
const patience = time.Minute

// Server is a PostgreSQL with a data folder and a port of its own. It can be
// started again after it ended.
type Server struct {
	Port int

	folder   string // everything of it; the socket lies here
	programs string
	owner    *syscall.Credential // who it runs as, nil for who runs the tests
	process  *process
}

// Programs is the folder of the newest PostgreSQL, 15 at least.
func Programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if len(found) == 0 || version(found[0]) < 15 {
		return "", fmt.Errorf("no PostgreSQL of version 15 or later in /usr/lib/postgresql: make test-setup installs Debian's postgresql-15")
	}
	return filepath.Dir(found[0]), nil
}

// New makes a server and starts it. Settings are lines of postgresql.conf. It
// ends with the test.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	return NewLog(t, "", settings...)
}

// NewLog is New with the write-ahead log in a folder that is not there yet, such
// as one in a file system that is small.
func NewLog(t testing.TB, folder string, settings ...string) *Server {
	t.Helper()
	s, err := create(t, folder, settings)
	t.Cleanup(func() { s.remove(t.Errorf) })
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return s
}

func create(t testing.TB, logFolder string, settings []string) (*Server, error) {
	s, err := blank(t)
	if err != nil {
		return s, err
	}
	password := filepath.Join(s.folder, "password")
	if err := os.WriteFile(password, []byte(Password+"\n"), 0o644); err != nil {
		return s, err
	}
	// It is made without syncing, and runs with it.
	args := []string{"-D", s.data(), "-U", Superuser, "--pwfile", password, "--auth-local=trust", "--auth-host=scram-sha-256",
		"--no-locale", "-E", "UTF8", "--no-sync", "--wal-segsize=1"}
	if logFolder != "" {
		args = append(args, "--waldir", logFolder)
	}
	if err := s.run("initdb", args...); err != nil {
		return s, err
	}
	defaults := []string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = '" + s.folder + "'", "max_connections = 60",
		"shared_buffers = 64MB", "fsync = on", "max_wal_size = 128MB", "autovacuum_naptime = 5s",
	}
	if err := s.Configure(append(defaults, settings...)...); err != nil {
		return s, err
	}
	return s, s.Start()
}

// blank is a server without a data folder.
func blank(t testing.TB) (*Server, error) {
	programs, err := Programs()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: programs, Port: testport.Free(t, 1)[0]}
	if os.Getuid() == 0 {
		if s.owner, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	// Not in t.TempDir, which only its owner may enter.
	if s.folder, err = os.MkdirTemp("", "workpull-pg-"); err != nil {
		return nil, err
	}
	return s, s.Own(s.folder)
}

// Own gives a file to whoever runs the server.
func (s *Server) Own(path string) error {
	if s.owner == nil {
		return nil
	}
	return os.Chown(path, int(s.owner.Uid), int(s.owner.Gid))
}

// unprivileged is somebody who is not root, as whom PostgreSQL refuses to run.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, fmt.Errorf("there is no user postgres and no user nobody that PostgreSQL could run as")
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// Configure appends lines to postgresql.conf; the last of a setting counts.
func (s *Server) Configure(lines ...string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, program), args...)
	cmd.Dir = s.folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// URL of a database over TCP, with the password of the superuser.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", Superuser, strings.ReplaceAll(Password, " ", "%20"), s.Port, database)
}

// SocketURL of a database, over the Unix socket.
func (s *Server) SocketURL(database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d", Superuser, database, s.folder, s.Port)
}

// Database makes an empty database and returns its URL over TCP.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", s.count())
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// databases numbers those of the process.
var databases struct {
	sync.Mutex
	n int
}

func (s *Server) count() int {
	databases.Lock()
	defer databases.Unlock()
	databases.n++
	return databases.n
}

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, database, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.SocketURL(database))
	if err != nil {
		t.Fatalf("connect to %s: %v", database, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}
