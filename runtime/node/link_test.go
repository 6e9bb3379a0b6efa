package node_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/workpull/operator/runtime/node"
)

// patience is how long tests wait for what takes milliseconds.
const patience = 10 * time.Second

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func listenLinks(t *testing.T, address string) (*node.LinkServer, <-chan node.Hello) {
	t.Helper()
	lost := make(chan node.Hello, 10)
	server, err := node.ListenLinks(address, "workpull-test", func(h node.Hello) { lost <- h }, quiet())
	require.NoError(t, err)
	return server, lost
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}

func hold(ctx context.Context, port int, hello node.Hello) (*node.Link, <-chan struct{}) {
	link := &node.Link{
		Hello: hello, Port: port, Logger: quiet(),
		Find: func(context.Context) (string, error) { return "127.0.0.1", nil },
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		link.Run(ctx)
	}()
	return link, ended
}

var hello = node.Hello{System: "workpull-test", Host: "10.0.0.9", Port: 9000, Process: "uid/nonce", Pod: "thumbs-0"}

// S28: the end of a worker's process is known at once.
func TestLinkEndIsReported(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, lost := listenLinks(t, "127.0.0.1:0")
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	link, ended := hold(ctx, portOf(t, server.Addr()), hello)
	require.Eventually(t, link.Up, patience, time.Millisecond)
	require.Equal(t, map[string]string{"uid/nonce": "thumbs-0"}, server.Pods())
	require.Empty(t, lost)

	begun := time.Now()
	cancel()
	select {
	case gone := <-lost:
		require.Equal(t, hello, gone)
		require.Less(t, time.Since(begun), time.Second)
	case <-time.After(patience):
		t.Fatal("the end of the link was not reported")
	}
	<-ended
	require.False(t, link.Up())
	require.Empty(t, server.Pods())
}

func TestLinkComesBack(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	first, lost := listenLinks(t, "127.0.0.1:0")
	address := first.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	link, ended := hold(ctx, portOf(t, address), hello)
	require.Eventually(t, link.Up, patience, time.Millisecond)

	first.Close()
	require.Eventually(t, func() bool { return !link.Up() }, patience, time.Millisecond)
	require.Empty(t, lost, "a producer that ends has lost no worker")

	second, _ := listenLinks(t, address)
	require.Eventually(t, link.Up, patience, time.Millisecond)
	cancel()
	<-ended
	second.Close()
}

func TestLinkRefusesStrangers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, lost := listenLinks(t, "127.0.0.1:0")
	defer server.Close()
	for name, greeting := range map[string]string{
		"another system": `{"system":"workpull-other","host":"10.0.0.1","port":9000}` + "\n",
		"no greeting":    "GET / HTTP/1.1\r\n",
		"endless":        strings.Repeat("x", 8<<10),
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", server.Addr())
			require.NoError(t, err)
			defer connection.Close()
			_, err = io.WriteString(connection, greeting)
			require.NoError(t, err)
			require.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
			answer, _ := io.ReadAll(connection) // ends with the connection, by FIN or reset
			require.Empty(t, answer)
		})
	}
	require.Eventually(t, func() bool { return len(server.Pods()) == 0 }, patience, time.Millisecond)
	require.Empty(t, lost, "who was not greeted is not lost")
}
