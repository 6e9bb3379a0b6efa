// Package outbox sends messages to one peer beside the actor that has them: a
// slow or hung peer delays nobody but itself.
//
// Many jobs go in one message. One send is under way at a time, under a
// deadline. After a failed send everything that waits is thrown away and the
// bindings concerned are reported: what is lost is asked for again by the
// protocol, and what was overtaken by a failure must not arrive later.
package outbox

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/wire"
)

// Limits of one send.
const (
	// DefaultMaxBytes is how much is packed into one send, in bytes; a single
	// larger message goes alone.
	DefaultMaxBytes = 1 << 20
	// DefaultMaxJobs is how many jobs and other messages go in one send.
	DefaultMaxJobs = 512
	// DefaultTimeout is the deadline of one send, beside the time that its
	// bytes may take.
	DefaultTimeout = 2 * time.Second
	// perByte is the slowest link that still carries jobs, 1 MB/s: without it
	// the largest job could never pass one that is slower than eight.
	perByte = time.Microsecond
)

// Config of an Outbox.
type Config struct {
	// Send delivers the messages or returns an error; it is called by one
	// goroutine at a time.
	Send func(ctx context.Context, messages []proto.Message) error
	// Failed is told of the bindings whose messages may not have arrived. It
	// must not block. Optional.
	Failed func(bindings []uint64)
	// Closed is called once when the outbox is closed and nothing is under
	// way any more. Optional.
	Closed func()
	// Zero values are the defaults. A send has the Timeout and a microsecond
	// for each byte.
	MaxBytes, MaxJobs int
	Timeout           time.Duration
}

// Outbox is safe for concurrent use. It has a goroutine only while it sends.
type Outbox struct {
	cfg Config

	mu      sync.Mutex
	queue   []item
	head    int
	sending bool
	closed  bool
}

// item is either a job of a binding or another message.
type item struct {
	session, binding uint64
	job              *wire.Job
	message          proto.Message
	size             int
}

// New returns an outbox. It holds no resources until something is put in.
func New(cfg Config) *Outbox {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.MaxJobs <= 0 {
		cfg.MaxJobs = DefaultMaxJobs
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Outbox{cfg: cfg}
}

// Job puts in a job of a binding.
func (o *Outbox) Job(session, binding uint64, job *wire.Job) {
	o.put(item{session: session, binding: binding, job: job, size: jobSize(job)})
}

// Message puts in a message that concerns binding; 0 is none.
func (o *Outbox) Message(binding uint64, message proto.Message) {
	o.put(item{binding: binding, message: message, size: proto.Size(message)})
}

// jobSize is an upper bound of the job's encoded size but for field headers,
// which the limit leaves room for.
func jobSize(job *wire.Job) int {
	return len(job.Payload) + len(job.TypeUrl) + len(job.MessageId) + 32
}

func (o *Outbox) put(i item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.queue = append(o.queue, i)
	if !o.sending {
		o.sending = true
		go o.run()
	}
}

// Finish takes nothing more and closes once what waits was sent, or its send
// failed.
func (o *Outbox) Finish() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	idle := !o.sending // then nothing waits
	o.mu.Unlock()
	if idle {
		o.release()
	}
}

// Close throws away what waits. A send under way ends by itself.
func (o *Outbox) Close() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	o.clear()
	idle := !o.sending
	o.mu.Unlock()
	if idle {
		o.release()
	}
}

func (o *Outbox) release() {
	if o.cfg.Closed != nil {
		o.cfg.Closed()
	}
}

func (o *Outbox) clear() {
	clear(o.queue)
	o.queue, o.head = o.queue[:0], 0
}

func (o *Outbox) run() {
	for {
		messages, bindings, bytes, closed := o.next()
		if messages == nil {
			if closed {
				o.release()
			}
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Timeout+time.Duration(bytes)*perByte)
		err := o.cfg.Send(ctx, messages)
		cancel()
		if err != nil {
			o.fail(bindings)
		}
	}
}

// next packs what waits into at most one send. Without any the goroutine ends:
// sending is false by then.
func (o *Outbox) next() (messages []proto.Message, bindings []uint64, bytes int, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var (
		count int
		batch *wire.Batch
	)
	for ; o.head < len(o.queue) && count < o.cfg.MaxJobs; count++ {
		i := &o.queue[o.head]
		if count > 0 && bytes+i.size > o.cfg.MaxBytes {
			break
		}
		bytes += i.size
		bindings = note(bindings, i.binding)
		switch {
		case i.job == nil:
			batch = nil
			messages = append(messages, i.message)
		case batch != nil && batch.Binding == i.binding && batch.Session == i.session:
			batch.Jobs = append(batch.Jobs, i.job)
		default:
			batch = &wire.Batch{Session: i.session, Binding: i.binding, Jobs: []*wire.Job{i.job}}
			messages = append(messages, batch)
		}
		o.queue[o.head] = item{}
		o.head++
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	}
	o.sending = messages != nil
	return messages, bindings, bytes, o.closed
}

func (o *Outbox) fail(bindings []uint64) {
	o.mu.Lock()
	for _, i := range o.queue[o.head:] {
		bindings = note(bindings, i.binding)
	}
	o.clear()
	closed := o.closed
	o.mu.Unlock()
	if !closed && o.cfg.Failed != nil && len(bindings) > 0 {
		o.cfg.Failed(bindings)
	}
}

func note(bindings []uint64, binding uint64) []uint64 {
	if binding == 0 {
		return bindings
	}
	for _, b := range bindings {
		if b == binding {
			return bindings
		}
	}
	return append(bindings, binding)
}
