package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A link is the TCP connection that every worker process holds open to the
// producer. Nothing but a greeting passes over it; its end is the report that
// the process ended, at once where the kernel says so, and after five silent
// seconds where the node is gone. The report starts a probe and decides
// nothing by itself, so a link that breaks for another reason costs nothing.

// keepAlive finds a dead peer after 2 s + 3 × 1 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

const (
	// greetTimeout bounds the greeting and its answer.
	greetTimeout = 5 * time.Second
	// greetBytes is the size of the longest greeting.
	greetBytes = 4 << 10
	// linkBackoff is the first pause between two attempts to connect, doubled
	// up to linkBackoffMax.
	linkBackoff    = 100 * time.Millisecond
	linkBackoffMax = 2 * time.Second
)

// Hello is what a worker process says of itself.
type Hello struct {
	// System is the name of its actor system, which is the producer's too.
	System string `json:"system"`
	// Host and Port are the address of its remoting.
	Host string `json:"host"`
	Port int    `json:"port"`
	// Process begins the identity of each of its worker endpoints.
	Process string `json:"process"`
	// Pod is the name of its pod.
	Pod string `json:"pod"`
}

// LinkServer is the producer's end of all links.
type LinkServer struct {
	system string
	lost   func(Hello)
	logger *slog.Logger

	listener net.Listener
	group    sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	open     map[net.Conn]Hello
}

// ListenLinks takes links on an address until Close; system is the name of the
// actor system that callers must be of. After the close of a greeted link it
// calls lost, unless it was the server that closed it.
func ListenLinks(address, system string, lost func(Hello), logger *slog.Logger) (*LinkServer, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive}
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for links: %w", err)
	}
	l := &LinkServer{system: system, lost: lost, logger: logger, listener: listener, open: map[net.Conn]Hello{}}
	l.group.Go(l.accept)
	return l, nil
}

func (l *LinkServer) accept() {
	for {
		connection, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, most likely: others may close theirs.
			l.logger.Warn("cannot accept a link", "error", err)
			time.Sleep(linkBackoff)
			continue
		}
		l.group.Go(func() { l.serve(connection) })
	}
}

func (l *LinkServer) serve(connection net.Conn) {
	defer connection.Close()
	if !l.enter(connection) {
		return
	}
	hello, err := l.greet(connection)
	if err != nil {
		l.leave(connection)
		l.logger.Warn("a link was refused", "from", connection.RemoteAddr().String(), "error", err)
		return
	}
	l.mu.Lock()
	l.open[connection] = hello
	l.mu.Unlock()
	_, _ = io.Copy(io.Discard, connection) // ends when the link does
	if l.leave(connection) {
		l.logger.Info("a worker's connection ended", "pod", hello.Pod, "host", hello.Host, "port", hello.Port)
		l.lost(hello)
	}
}

func (l *LinkServer) greet(connection net.Conn) (Hello, error) {
	var hello Hello
	if err := connection.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return hello, err
	}
	line, err := bufio.NewReader(io.LimitReader(connection, greetBytes)).ReadBytes('\n')
	if err != nil {
		return hello, fmt.Errorf("read the greeting: %w", err)
	}
	if err := json.Unmarshal(line, &hello); err != nil {
		return hello, fmt.Errorf("read the greeting: %w", err)
	}
	if hello.System != l.system {
		return hello, fmt.Errorf("it is of system %q, this producer is of %q", hello.System, l.system)
	}
	if _, err := io.WriteString(connection, "ok\n"); err != nil {
		return hello, fmt.Errorf("answer the greeting: %w", err)
	}
	return hello, connection.SetDeadline(time.Time{})
}

func (l *LinkServer) enter(connection net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.open[connection] = Hello{}
	return true
}

// leave forgets a connection; it reports whether the server still runs.
func (l *LinkServer) leave(connection net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, connection)
	return !l.closed
}

// Pods maps the processes whose links are open to the names of their pods.
func (l *LinkServer) Pods() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := make(map[string]string, len(l.open))
	for _, hello := range l.open {
		if hello.Process != "" {
			pods[hello.Process] = hello.Pod
		}
	}
	return pods
}

// Addr is the host:port that it listens on.
func (l *LinkServer) Addr() string { return l.listener.Addr().String() }

// Close ends every link and reports none of them lost.
func (l *LinkServer) Close() {
	l.mu.Lock()
	l.closed = true
	for connection := range l.open {
		_ = connection.Close()
	}
	l.mu.Unlock()
	_ = l.listener.Close()
	l.group.Wait()
}

// Link is a worker's end of its link.
type Link struct {
	// Hello is the greeting.
	Hello Hello
	// Find returns the producer's host; it is asked before each attempt.
	Find func(ctx context.Context) (string, error)
	// Port of the producer's end.
	Port int
	// Logger tells when the link comes and goes.
	Logger *slog.Logger

	up atomic.Bool
}

// Run holds the link open until ctx ends.
func (l *Link) Run(ctx context.Context) {
	pause := linkBackoff
	defer l.up.Store(false)
	for failures := 0; ctx.Err() == nil; {
		err := l.hold(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.up.Swap(false) {
			failures, pause = 0, linkBackoff
		}
		failures++
		if failures == 1 || failures%30 == 0 {
			l.Logger.Warn("no connection to the producer", "attempts", failures, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		pause = min(2*pause, linkBackoffMax)
	}
}

// hold returns when the link has ended or cannot be made.
func (l *Link) hold(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	host, err := l.Find(dialing)
	if err != nil {
		return fmt.Errorf("find the producer: %w", err)
	}
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	connection, err := dialer.DialContext(dialing, "tcp", net.JoinHostPort(host, strconv.Itoa(l.Port)))
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if err := l.greet(connection); err != nil {
		return fmt.Errorf("greet the producer at %s: %w", host, err)
	}
	l.up.Store(true)
	l.Logger.Info("connected to the producer", "host", host)
	_, err = io.Copy(io.Discard, connection)
	return errors.Join(errors.New("the connection ended"), err)
}

func (l *Link) greet(connection net.Conn) error {
	if err := connection.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return err
	}
	line, err := json.Marshal(l.Hello)
	if err != nil {
		return err
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(connection, greetBytes)).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "ok\n" {
		return fmt.Errorf("the answer was %q", answer)
	}
	return connection.SetDeadline(time.Time{})
}

// Up tells whether the link is open.
func (l *Link) Up() bool { return l.up.Load() }
