package control

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pool is a controller of which a test says what holds.
type pool struct {
	mu          sync.Mutex
	state       Snapshot
	err         error
	takes       time.Duration // an inspection
	inspections int
	counts      int
	changes     chan<- struct{}
	retired     map[string]bool
	jobs        map[string]Job
	letters     []DeadLetter
	gone        []string
}

// set changes what holds; a change may be told of.
func (p *pool) set(tell bool, change func(*pool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	if tell && p.changes != nil {
		select {
		case p.changes <- struct{}{}:
		default:
		}
	}
}

func (p *pool) asked() (inspections, counts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inspections, p.counts
}

func (p *pool) Inspect(context.Context) (*Snapshot, error) {
	p.mu.Lock()
	takes := p.takes
	p.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes) // virtual time
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inspections++
	if p.err != nil {
		return nil, p.err
	}
	s := p.state
	s.Workers = append([]Worker(nil), s.Workers...)
	return &s, nil
}

func (p *pool) Count(context.Context) (Counts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts++
	session, _ := p.state.Session.Get()
	accepted, _ := p.state.Accepted.Get()
	confirmed, _ := p.state.Confirmed.Get()
	return Counts{Session: session, Accepted: accepted, Confirmed: confirmed}, p.err
}

func (p *pool) Notify(changes chan<- struct{}) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = changes
	return func() { p.set(false, func(p *pool) { p.changes = nil }) }, nil
}

func (p *pool) Retire(_ context.Context, identity string) (Retirement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return Retirement{}, p.err
	}
	if p.retired == nil {
		p.retired = map[string]bool{}
	}
	p.retired[identity] = true
	session, _ := p.state.Session.Get()
	w, known := p.state.Worker(identity)
	return Retirement{Identity: identity, Known: known, Held: w.Held, Session: session}, nil
}

func (p *pool) Release(_ context.Context, identity string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.retired, identity)
	return p.err
}

func (p *pool) Gone(_ context.Context, podUID, nonce string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = append(p.gone, podUID+"/"+nonce)
	return len(p.gone), p.err
}

func (p *pool) Explain(_ context.Context, id string) (Job, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j, ok := p.jobs[id]
	if !ok {
		return Job{}, ErrUnknownJob
	}
	return j, nil
}

func (p *pool) DeadLetters(_ context.Context, limit int) ([]DeadLetter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.letters[:min(limit, len(p.letters))], nil
}

func (p *pool) Redrive(_ context.Context, id string) error { return p.Drop(context.Background(), id) }

func (p *pool) Drop(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.letters {
		if p.letters[i].ID == id {
			p.letters = append(p.letters[:i:i], p.letters[i+1:]...)
			return nil
		}
	}
	return ErrNoDeadLetter
}

// inHub runs a test in virtual time beside a hub.
func inHub(t *testing.T, test func(t *testing.T, p *pool, h *hub)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{state: Snapshot{State: State{Session: Some(uint64(1)), Accepted: Some(uint64(0)), Confirmed: Some(uint64(0))}}}
		h := newHub(p)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.run(ctx) }()
		test(t, p, h)
		cancel()
		require.NoError(t, <-done)
		_, _, err := h.current()
		require.ErrorIs(t, err, errStopping)
	})
}

func enter(t *testing.T, h *hub) (leave func()) {
	t.Helper()
	leave, err := h.enter()
	require.NoError(t, err)
	return leave
}

func published(t *testing.T, h *hub) *publication {
	t.Helper()
	p, _, err := h.current()
	require.NoError(t, err)
	return p
}

// follow counts the publications there are in a time, and the longest time
// between two.
func follow(t *testing.T, h *hub, span time.Duration) (n int, longest time.Duration) {
	t.Helper()
	end, last := time.After(span), time.Now()
	for {
		_, next, err := h.current()
		require.NoError(t, err)
		select {
		case <-next:
			n++
			longest, last = max(longest, time.Since(last)), time.Now()
		case <-end:
			return n, longest
		}
	}
}

func TestNobodyWatches(t *testing.T) {
	inHub(t, func(t *testing.T, p *pool, h *hub) {
		for range 100 {
			p.set(true, func(*pool) {})
			time.Sleep(100 * time.Millisecond)
		}
		inspections, counts := p.asked()
		require.Zero(t, inspections, "the cost goes with the number of workers, and nobody looks")
		require.InDelta(t, 10*time.Second/period, counts, 2)
		require.Nil(t, published(t, h))

		// Rates have been measured all the same: whoever comes knows them at once.
		p.set(false, func(p *pool) { p.state.Accepted = Some(uint64(0)) })
		for i := range 60 {
			p.set(false, func(p *pool) { p.state.Accepted = Some(uint64(i) * 10) })
			time.Sleep(time.Second)
		}
		defer enter(t, h)()
		synctest.Wait()
		rate, ok := published(t, h).snapshot.ArrivalRate.Get()
		require.True(t, ok)
		require.Greater(t, rate, 7.0)
	})
}

func TestAStateComesAtOnceAndEachSecond(t *testing.T) {
	inHub(t, func(t *testing.T, p *pool, h *hub) {
		time.Sleep(300 * time.Millisecond)
		began := time.Now()
		leave := enter(t, h)
		synctest.Wait()
		require.NotNil(t, published(t, h))
		require.Zero(t, time.Since(began))
		n, longest := follow(t, h, time.Minute)
		require.LessOrEqual(t, longest, time.Second)
		require.LessOrEqual(t, n, 70)

		// One inspection serves all.
		defer enter(t, h)()
		before, _ := p.asked()
		time.Sleep(10 * time.Second)
		after, _ := p.asked()
		require.LessOrEqual(t, after-before, 12)
		leave()
	})
}

func TestAChangeIsToldAtOnceButNotTooOften(t *testing.T) {
	inHub(t, func(t *testing.T, p *pool, h *hub) {
		defer enter(t, h)()
		time.Sleep(200 * time.Millisecond)
		version := published(t, h).version
		p.set(true, func(p *pool) { p.state.Waiting = Some(1) })
		synctest.Wait()
		require.Equal(t, version+1, published(t, h).version, "in no time")
		require.True(t, published(t, h).snapshot.Waiting.Is(1))

		go func() {
			for range 5000 {
				p.set(true, func(*pool) {})
				time.Sleep(2 * time.Millisecond)
			}
		}()
		n, longest := follow(t, h, 10*time.Second)
		require.LessOrEqual(t, n, int(10*time.Second/minPause)+1)
		require.LessOrEqual(t, longest, minPause)

		// An inspection that takes long is made less often.
		p.set(false, func(p *pool) { p.takes = 20 * time.Millisecond })
		go func() {
			for range 5000 {
				p.set(true, func(*pool) {})
				time.Sleep(2 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		n, _ = follow(t, h, 8400*time.Millisecond)
		require.InDelta(t, 20, n, 1, "20 ms each, and twenty times that between")
		p.set(false, func(p *pool) { p.takes = 0 })
		time.Sleep(2 * time.Second)
	})
}

func TestAControllerThatDoesNotAnswer(t *testing.T) {
	inHub(t, func(t *testing.T, p *pool, h *hub) {
		leave := enter(t, h)
		synctest.Wait()
		p.set(false, func(p *pool) { p.err = errors.New("gone fishing") })
		time.Sleep(time.Second)
		require.Nil(t, published(t, h).snapshot, "what was known is not told again")
		require.Equal(t, "gone fishing", published(t, h).trouble)
		p.set(false, func(p *pool) { p.err = nil })
		time.Sleep(time.Second)
		require.NotNil(t, published(t, h).snapshot)

		// What was known is not kept for whoever comes later.
		leave()
		require.Nil(t, published(t, h))
		time.Sleep(time.Second)
		require.Nil(t, published(t, h))
	})
}

func TestThereAreNotTooManyWatchers(t *testing.T) {
	h := newHub(&pool{})
	for range maxWatchers - 1 {
		enter(t, h)
	}
	leave := enter(t, h)
	_, err := h.enter()
	require.ErrorIs(t, err, errCrowded)
	leave()
	enter(t, h)
}
