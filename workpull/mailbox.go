package workpull

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/goaktpb"
)

// mailbox is that of endpoints and controllers. It saves most of what a message
// between them would cost otherwise, in two ways.
//
// GoAkt runs an actor on a goroutine that ends as soon as the mailbox is empty
// and is started anew for the next message, each time with the smallest stack,
// which the turn then grows: more work than most turns are. Here the goroutine
// waits in Dequeue for the next message instead. The collector takes back the
// stack that one which waits does not use.
//
// A message that finds its controller without anything to do is handled where
// it comes from, on the goroutine of the endpoint or controller that sends it,
// when the controller says so (see at): its own goroutine need not be woken.
// Messages keep their order, and there is one turn at a time.
type mailbox struct {
	*actor.UnboundedMailbox
	// ours tells whether a message is one of the pattern's own, which handle
	// handles: GoAkt need not have it, and what it does around each message is
	// saved. at tells whether that may be done on its sender's goroutine. Nil
	// is never.
	ours, at func(ctx *actor.ReceiveContext) bool
	handle   func(ctx *actor.ReceiveContext)

	front atomic.Pointer[actor.ReceiveContext]

	turn sync.Mutex // held during a turn

	taking sync.Mutex // held by the goroutine in Dequeue
	held   bool       // whether that goroutine took turn; guarded by taking
	open   atomic.Bool
	parked atomic.Bool
	wake   chan struct{} // one value for each time that parked was taken back by another
}

func newMailbox() *mailbox {
	return &mailbox{UnboundedMailbox: actor.NewUnboundedMailbox(), wake: make(chan struct{}, 1)}
}

// Enqueue implements actor.Mailbox. The PostStart of a restarted inner actor
// overtakes what waits.
func (m *mailbox) Enqueue(ctx *actor.ReceiveContext) error {
	if m.at != nil && m.at(ctx) && m.take() {
		m.handle(ctx)
		m.turn.Unlock()
		return nil
	}
	if !isReplay(ctx) || !m.front.CompareAndSwap(nil, ctx) {
		if err := m.UnboundedMailbox.Enqueue(ctx); err != nil {
			return err
		}
	}
	m.unpark()
	return nil
}

// here runs a controller's turn on the goroutine that has a message for it. A
// panic is the controller's, not the sender's.
func here(self *actor.PID, turn func() (stop bool)) {
	defer func() {
		if cause := recover(); cause != nil {
			_ = self.Tell(context.Background(), self, &panicked{cause: cause, stack: debug.Stack()})
		}
	}()
	if turn() {
		_ = self.Tell(context.Background(), self, &halt{})
	}
}

// take begins a turn on the caller's goroutine, if none is under way and no
// message waits for one. The caller unlocks turn.
func (m *mailbox) take() bool {
	if !m.turn.TryLock() {
		return false
	}
	if m.open.Load() && m.nothing() {
		return true
	}
	m.turn.Unlock()
	return false
}

func (m *mailbox) nothing() bool { return m.front.Load() == nil && m.UnboundedMailbox.IsEmpty() }

// Dequeue implements actor.Mailbox. It returns nil only when the actor has
// stopped, or when another goroutine, which GoAkt started for a restarted
// actor, waits here already. The turn lasts until the goroutine is back.
func (m *mailbox) Dequeue() *actor.ReceiveContext {
	if !m.taking.TryLock() {
		return nil
	}
	defer m.taking.Unlock()
	m.release()
	for {
		ctx := m.next()
		if ctx != nil && m.ours != nil && m.ours(ctx) {
			m.handle(ctx)
			m.release()
			continue
		}
		if ctx != nil || !m.open.Load() {
			return ctx
		}
		m.parked.Store(true)
		// What came before parked was seen is here; what comes later wakes.
		if (!m.nothing() || !m.open.Load()) && m.parked.CompareAndSwap(true, false) {
			continue
		}
		<-m.wake
	}
}

// next begins a turn with the next message.
func (m *mailbox) next() *actor.ReceiveContext {
	if m.nothing() {
		return nil
	}
	m.turn.Lock()
	m.held = true
	if m.front.Load() != nil {
		return m.front.Swap(nil)
	}
	ctx := m.UnboundedMailbox.Dequeue()
	if ctx == nil { // on its way between two steps of Enqueue
		m.release()
	}
	return ctx
}

// release ends the turn of the goroutine that GoAkt runs.
func (m *mailbox) release() {
	if m.held {
		m.held = false
		m.turn.Unlock()
	}
}

func (m *mailbox) unpark() {
	if m.parked.Load() && m.parked.CompareAndSwap(true, false) {
		m.wake <- struct{}{}
	}
}

// start lets the actor's goroutine wait here; Dispose ends that.
func (m *mailbox) start() { m.open.Store(true) }

// Dispose implements actor.Mailbox: the actor stops, or is about to start anew.
func (m *mailbox) Dispose() {
	m.open.Store(false)
	m.unpark()
	m.UnboundedMailbox.Dispose()
}

// IsEmpty implements actor.Mailbox. GoAkt asks after each turn whether the
// goroutine is to come back to Dequeue.
func (m *mailbox) IsEmpty() bool {
	if m.open.Load() || !m.nothing() {
		return false
	}
	if m.taking.TryLock() {
		m.release()
		m.taking.Unlock()
	}
	return true
}

// isReplay tells a PostStart that the wrapper sent itself from GoAkt's.
func isReplay(ctx *actor.ReceiveContext) bool {
	_, ok := ctx.Message().(*goaktpb.PostStart)
	return ok && ctx.Sender() == ctx.Self()
}
