package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/runtime/control/controlpb"
)

const (
	patience = 30 * time.Second
	glance   = 5 * time.Millisecond
)

// serve serves a source on a port until stop is called.
func serve(t *testing.T, port int, source Source) (stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, source) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, port int) *Client {
	t.Helper()
	client, err := Dial("passthrough:///127.0.0.1:"+strconv.Itoa(port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// watching has a client watch until the test ends and passes the views on.
func watching(t *testing.T, client *Client) <-chan View {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	views := make(chan View)
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Watch(ctx, func(v View) {
			select {
			case views <- v:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return views
}

// await reads views until one is as wanted.
func await(t *testing.T, views <-chan View, what string, wanted func(View) bool) View {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case v := <-views:
			if wanted(v) {
				return v
			}
		case <-deadline:
			t.Fatalf("no view in which %s", what)
		}
	}
}

func waits(n int) func(View) bool {
	return func(v View) bool { return v.Snapshot != nil && v.Snapshot.Waiting.Is(n) && v.Err == nil }
}

func TestWatchOutlivesTheServer(t *testing.T) {
	port := testport.Free(t, 1)[0]
	client := dial(t, port)
	views := watching(t, client)
	await(t, views, "there is no connection, and nothing is known", func(v View) bool {
		return v.Snapshot == nil && v.Err != nil && v.Stale(time.Now()) && strings.Contains(v.Err.Error(), "connection refused")
	})

	first := &pool{state: Snapshot{State: State{Waiting: Some(7)}, Workers: []Worker{{Identity: "b/n/0"}, {Identity: "a/n/0"}}}}
	stop := serve(t, port, first)
	v := await(t, views, "seven jobs wait", waits(7))
	require.Equal(t, "a/n/0", v.Snapshot.Workers[0].Identity)
	require.False(t, v.Stale(time.Now()))

	stop()
	v = await(t, views, "the server is gone", func(v View) bool { return v.Err != nil })
	require.True(t, v.Snapshot.Waiting.Is(7), "what was known is kept, with its time")

	serve(t, port, &pool{state: Snapshot{State: State{Waiting: Some(1)}}})
	v = await(t, views, "one job waits", waits(1))
	require.Empty(t, v.Snapshot.Workers, "nothing is left of what the other server said")
}

// A change of the pool reaches the watcher as a delta.
func TestWatchFollowsChanges(t *testing.T) {
	port := testport.Free(t, 1)[0]
	p := &pool{state: *manyWorkers(3)}
	serve(t, port, p)
	views := watching(t, dial(t, port))
	await(t, views, "there are three workers", func(v View) bool { return v.Snapshot != nil && len(v.Snapshot.Workers) == 3 })
	p.set(true, func(p *pool) {
		p.state.Workers = p.state.Workers[1:]
		p.state.Workers[0].Held = Some(2)
		p.state.Waiting = Some(5)
	})
	v := await(t, views, "five jobs wait", waits(5))
	require.Len(t, v.Snapshot.Workers, 2)
	require.True(t, v.Snapshot.Workers[0].Held.Is(2))
	require.True(t, v.Snapshot.Workers[1].Held.Is(1))
	p.set(true, func(p *pool) { p.err = errors.New("gone fishing") })
	v = await(t, views, "the controller does not answer", func(v View) bool { return v.Err != nil })
	require.ErrorContains(t, v.Err, "the controller does not answer: gone fishing")
	require.True(t, v.Snapshot.Waiting.Is(5))
}

// A watcher that does not read gets the latest state once it does, however many
// there were: nothing is queued for it, and nobody else waits for it.
func TestSlowWatcher(t *testing.T) {
	port := testport.Free(t, 1)[0]
	p := &pool{state: *manyWorkers(2_000)} // more than gRPC's windows hold
	serve(t, port, p)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slow, err := dial(t, port).api.Watch(ctx, &controlpb.WatchRequest{})
	require.NoError(t, err)
	first, err := slow.Recv()
	require.NoError(t, err)

	views := watching(t, dial(t, port))
	const changes = 12
	for i := 1; i <= changes; i++ {
		p.set(true, func(p *pool) {
			p.state.Waiting = Some(i)
			workers := append([]Worker(nil), p.state.Workers...)
			for j := range workers {
				workers[j].Demand = Some(i)
			}
			p.state.Workers = workers
		})
		await(t, views, "the change is seen", waits(i))
	}

	var a assembly
	states := 0
	for u := first; ; {
		s, err := a.add(u)
		require.NoError(t, err)
		if s != nil {
			if states++; s.Waiting.Is(changes) {
				require.True(t, s.Workers[1_999].Demand.Is(changes))
				break
			}
		}
		u, err = slow.Recv()
		require.NoError(t, err)
	}
	require.Less(t, states, changes/2, "the states in between were skipped")
}

func TestOrders(t *testing.T) {
	ctx := context.Background()
	port := testport.Free(t, 1)[0]
	p := &pool{
		state: Snapshot{State: State{Session: Some(uint64(77))}, Workers: []Worker{{Identity: "a", Held: Some(0)}, {Identity: "b", Held: Some(2)}}},
		jobs:  map[string]Job{"j": {State: "delayed", Attempt: Some(2), Due: Some(time.UnixMilli(5)), History: []FailedAttempt{{Attempt: Some(1), Reason: strings.Repeat("é", 4000)}}}},
	}
	for i := range 150 {
		p.letters = append(p.letters, DeadLetter{ID: fmt.Sprintf("dead-%03d", i), StoreSequence: Some(uint64(i)), PayloadBytes: Some(uint64(9))})
	}
	serve(t, port, p)
	client := dial(t, port)

	// B13: one that has no binding is unknown, which is not empty, and the answer
	// carries the session.
	retired, err := client.Retire(ctx, "b", "a", "c")
	require.NoError(t, err)
	require.Equal(t, []Retirement{
		{Identity: "b", Known: true, Held: Some(2), Session: 77},
		{Identity: "a", Known: true, Held: Some(0), Session: 77},
		{Identity: "c", Session: 77},
	}, retired)
	require.Equal(t, []bool{false, true, false}, []bool{retired[0].Empty(), retired[1].Empty(), retired[2].Empty()})
	require.NoError(t, client.Release(ctx, "a", "b"))
	require.Equal(t, map[string]bool{"c": true}, p.retired)

	n, err := client.WorkerGone(ctx, "uid", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = client.WorkerGone(ctx, "uid", "boot")
	require.NoError(t, err)
	require.Equal(t, []string{"uid/", "uid/boot"}, p.gone)

	j, err := client.Explain(ctx, "j")
	require.NoError(t, err)
	require.Equal(t, "delayed", j.State)
	require.True(t, j.Due.Is(time.UnixMilli(5)))
	require.Len(t, j.History[0].Reason, maxReason)
	_, err = client.Explain(ctx, "nobody")
	require.ErrorIs(t, err, ErrUnknownJob)

	letters, more, err := client.DeadLetters(ctx, 100)
	require.NoError(t, err)
	require.Len(t, letters, 100)
	require.True(t, more)
	require.Equal(t, p.letters[3], DeadLetter{ID: letters[3].ID, StoreSequence: letters[3].StoreSequence, PayloadBytes: letters[3].PayloadBytes})
	require.NoError(t, client.Drop(ctx, "dead-000"))
	require.NoError(t, client.Redrive(ctx, "dead-001"))
	require.ErrorIs(t, client.Drop(ctx, "dead-000"), ErrNoDeadLetter)
	require.ErrorIs(t, client.Redrive(ctx, "dead-000"), ErrNoDeadLetter)
	letters, more, err = client.DeadLetters(ctx, 1000)
	require.NoError(t, err)
	require.Len(t, letters, 148)
	require.False(t, more)

	for name, call := range map[string]func() error{
		"no worker": func() error { _, err := client.api.Retire(ctx, &controlpb.RetireRequest{}); return err },
		"too many": func() error {
			_, err := client.api.Retire(ctx, &controlpb.RetireRequest{Identities: make([]string, 1001)})
			return err
		},
		"a long identity":   func() error { return client.Release(ctx, strings.Repeat("x", 513)) },
		"an empty identity": func() error { return client.Release(ctx, "") },
		"a pod with a path": func() error { _, err := client.WorkerGone(ctx, "uid/boot", ""); return err },
		"no job":            func() error { _, err := client.Explain(ctx, ""); return err },
		"no dead letters":   func() error { _, _, err := client.DeadLetters(ctx, 0); return err },
		"too many of them":  func() error { _, _, err := client.DeadLetters(ctx, 5000); return err },
	} {
		require.Equal(t, codes.InvalidArgument, status.Code(call()), name)
	}

	p.set(false, func(p *pool) { p.err = errors.New("gone fishing") })
	_, err = client.Retire(ctx, "a")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "gone fishing")
}

func TestAProducerThatIsNotThere(t *testing.T) {
	client := dial(t, testport.Free(t, 1)[0])
	_, err := client.Retire(context.Background(), "a")
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "connection refused")
	_, err = Dial("passthrough:///127.0.0.1:1")
	require.ErrorContains(t, err, "no transport security set")
}

// What comes from a server that lives and says nothing any more grows stale, is
// told to be, and is asked for anew; in virtual time.
func TestSilenceMakesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		ctx, cancel := context.WithCancel(context.Background())
		p := &pool{state: Snapshot{State: State{Waiting: Some(3)}}}
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, listener, p) }()
		client, err := Dial("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		require.NoError(t, err)
		var mu sync.Mutex
		var views []View
		take := func() []View { // what was told since
			mu.Lock()
			defer mu.Unlock()
			defer func() { views = nil }()
			return views
		}
		watched := make(chan struct{})
		watching, end := context.WithCancel(ctx)
		go func() {
			defer close(watched)
			client.Watch(watching, func(v View) {
				mu.Lock()
				defer mu.Unlock()
				views = append(views, v)
			})
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		told := take()
		require.InDelta(t, 11, len(told), 2)
		for i := range told {
			require.NoError(t, told[i].Err)
			require.Less(t, time.Since(told[len(told)-1].Heard), time.Second)
		}

		p.set(false, func(p *pool) { p.takes = time.Hour })
		time.Sleep(StaleAfter + time.Second)
		synctest.Wait()
		told = take()
		require.NotEmpty(t, told)
		last := told[len(told)-1]
		require.True(t, last.Stale(time.Now()), "it was told when it had become stale")
		require.True(t, last.Snapshot.Waiting.Is(3))
		require.ErrorContains(t, last.Err, "nothing came for 5s")

		p.set(false, func(p *pool) { p.takes = 0 })
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		told = take()
		last = told[len(told)-1]
		require.False(t, last.Stale(time.Now()))
		require.NoError(t, last.Err)
		end()
		<-watched
		require.NoError(t, client.Close())
		cancel()
		require.NoError(t, <-done)
	})
}

func TestPauses(t *testing.T) {
	require.Equal(t, firstPause, pauseAfter(0, 0))
	require.Equal(t, firstPause/2, pauseAfter(0, 1))
	for failures := 0; failures < 100; failures++ {
		require.LessOrEqual(t, pauseAfter(failures, 0), lastPause)
		require.GreaterOrEqual(t, pauseAfter(failures, 1), firstPause/2)
	}
	require.Equal(t, lastPause, pauseAfter(50, 0))
}
