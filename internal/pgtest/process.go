package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// process is a running server.
type process struct {
	pid   int
	ended chan struct{} // closed once it is gone
}

// Start starts a server that ended, and returns once it takes queries. It
// recovers first, where it was killed.
func (s *Server) Start() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.programs, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.Port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.folder, log, log
	// It ends at once if the tests do without ending it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Pdeathsig: syscall.SIGQUIT}
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its log tells why
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = p
	return s.ready()
}

func (s *Server) log() string { return filepath.Join(s.folder, "log") }

// Log is what the server wrote so far.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// ready waits until the server takes queries.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.SocketURL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-s.process.ended:
			return fmt.Errorf("the server ended:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("the server takes no queries: %w\n%s", err, s.Log())
		}
	}
}

// Ended is closed once the server has ended, of itself or not.
func (s *Server) Ended() <-chan struct{} { return s.process.ended }

// Stop ends the server in order, once all clients are cut off.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server and all of its processes on the spot, as a loss of power
// does but for what the kernel holds of its files.
func (s *Server) Kill() error {
	children, err := s.process.children()
	if err != nil {
		return err
	}
	if err := s.end(syscall.SIGKILL); err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return nil
}

// Signal sends a signal to the server's first process.
func (s *Server) Signal(signal syscall.Signal) error { return syscall.Kill(s.process.pid, signal) }

func (s *Server) end(signal syscall.Signal) error {
	select {
	case <-s.process.ended:
		return nil
	default:
	}
	if err := s.Signal(signal); err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	select {
	case <-s.process.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the server does not end:\n%s", s.Log())
	}
}

// children of the process, as far as they are there now.
func (p *process) children() ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that is gone
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// remove ends the server and removes what it wrote.
func (s *Server) remove(report func(string, ...any)) {
	if s == nil {
		return
	}
	if s.process != nil {
		if err := s.end(syscall.SIGQUIT); err != nil {
			report("%v", err)
		}
	}
	if err := os.RemoveAll(s.folder); err != nil {
		report("%v", err)
	}
}
