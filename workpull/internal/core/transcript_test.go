package core

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts runs the files under testdata. Each is a conversation: a
// command is an event, what follows is everything the controller asks for in
// answer. Headings name the rules that a passage shows.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var p producerScript
		var c consumerScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if strings.Contains(path, "consumer") {
				return c.run(t, d)
			}
			return p.run(t, d)
		})
	})
}

const (
	self     = Peer("dispatcher")
	session1 = uint64(100)
)

// args reads the arguments of one command by name; "-" is the empty string.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) has(name string) bool { return a.d.HasArg(name) }

func (a args) str(name, otherwise string) string {
	if !a.d.HasArg(name) {
		return otherwise
	}
	var s string
	a.d.ScanArgs(a.t, name, &s)
	if s == "-" {
		return ""
	}
	return s
}

func (a args) num(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(a.str(name, strconv.FormatUint(otherwise, 10)), 10, 64)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", name, err)
	}
	return n
}

func (a args) duration(name string, otherwise time.Duration) time.Duration {
	v, err := time.ParseDuration(a.str(name, otherwise.String()))
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", name, err)
	}
	return v
}

// first is the command's first word after its name.
func (a args) first() string {
	if len(a.d.CmdArgs) == 0 {
		a.d.Fatalf(a.t, "wanted a name")
	}
	return a.d.CmdArgs[0].Key
}

func (a args) ranges(name string) []Range {
	var out []Range
	for part := range strings.SplitSeq(a.str(name, ""), "/") {
		if part == "" {
			continue
		}
		from, to, _ := strings.Cut(part, "-")
		if to == "" {
			to = from
		}
		first, _ := strconv.ParseUint(from, 10, 64)
		last, _ := strconv.ParseUint(to, 10, 64)
		out = append(out, Range{first, last})
	}
	return out
}

// worker is what a scripted worker remembers of its registration.
type worker struct {
	reg     Registration
	binding uint64
	control uint64
}

type producerScript struct {
	p       *Producer
	now     time.Duration
	token   uint64 // of the last RequestNext
	workers map[string]*worker
	next    uint64 // binding id
	pending []Effect
}

func (s *producerScript) run(t *testing.T, d *datadriven.TestData) string {
	a := args{t, d}
	switch d.Cmd {
	case "new":
		p, err := NewProducer(ProducerConfig{
			Name: a.str("name", "jobs"), Actor: Peer(a.str("actor", string(self))),
			RetryInterval: a.duration("retry", 500*time.Millisecond),
			Credits:       int(a.num("credits", 0)), StoreAhead: int(a.num("store-ahead", 0)),
			Packed: a.has("packed"), Lease: a.duration("lease", 0), Confirmations: a.has("confirmations"),
			MaxAttempts: int(a.num("attempts", 0)), Durable: a.has("durable"), Batches: a.has("batches"),
			Pages: a.has("pages"), PageBytes: int(a.num("page-bytes", 0)), Keeps: a.has("keeps"), Remembers: a.has("remembers"), Reloads: a.has("reloads"),
			Window: a.duration("window", 0), Settle: a.duration("settle", 0), FirstBackoff: a.duration("first-backoff", 0), LastBackoff: a.duration("last-backoff", 0),
		})
		if err != nil {
			return err.Error()
		}
		*s = producerScript{p: p, workers: map[string]*worker{}, next: 10}
		s.p.Start(s.now, session1, nil)
	case "restart":
		s.p.Start(s.now, a.num("session", session1+1), nil)
	case "loaded":
		s.p.Loaded(s.now, a.num("session", s.p.session), a.num("operation", s.p.lane.last), a.state(), a.num("epoch", 1), a.err())
	case "committed":
		s.p.Committed(s.now, a.num("session", s.p.session), a.num("operation", s.under()), a.outcomes(), a.err(), 777)
	case "fetched":
		payloads := make([]Payload, a.num("payloads", uint64(len(s.p.paging.asked))))
		for i := range payloads {
			payloads[i] = Payload{TypeURL: "job", Value: make([]byte, a.num("size", 1))}
		}
		s.p.Fetched(s.now, a.num("session", s.p.session), a.num("operation", s.p.paging.number), payloads, a.err(), 777)
	case "exhaust":
		s.p.cursor = ^uint64(0)
	case "exhaust-worker":
		b := s.p.bindings[s.worker(a).binding]
		b.dispatched, b.confirmed, b.requested = ^uint64(0), ^uint64(0), ^uint64(0)
		s.p.index(b)
		s.p.eligible.add(b.slot) // as if it had demand: there is no number for it
	case "register":
		w := s.worker(a)
		w.reg.Nonce = a.num("nonce", w.reg.Nonce+1)
		w.reg.Draining, w.reg.RetiredBy = a.has("draining"), a.num("retired-by", 0)
		w.reg.Held = heldAttempt(a.str("held", ""))
		s.p.Register(s.now, Peer(a.str("from", a.first())), w.reg)
	case "verified":
		w := s.worker(a)
		s.next++
		w.binding, w.control = s.next, 0
		s.p.Verified(s.now, Peer(a.first()), w.reg, !a.has("refused"), w.binding)
	case "bind":
		w := s.worker(a)
		w.reg.Nonce++
		w.reg.Held = heldAttempt(a.str("held", ""))
		s.next++
		w.binding, w.control = s.next, 0
		s.p.Register(s.now, Peer(a.first()), w.reg)
		s.p.Take()
		s.p.Verified(s.now, Peer(a.first()), w.reg, true, w.binding)
	case "request", "ack", "farewell", "stop":
		s.control(a)
	case "produce":
		s.p.Produced(s.now, Peer(a.str("from", string(self))), a.num("session", s.p.session), a.num("token", s.token), a.str("id", "job"), Payload{TypeURL: "job", Value: make([]byte, a.num("size", 1))})
	case "stored-ack":
		s.p.StoredAck(s.now, Peer(a.str("from", string(self))), a.num("session", s.p.session), a.num("token", s.token))
	case "submit":
		for _, arg := range d.CmdArgs {
			token := s.token
			s.p.Produced(s.now, self, s.p.session, token, arg.Key, Payload{TypeURL: "job"})
			s.note()
			s.p.StoredAck(s.now, self, s.p.session, token)
			s.note()
		}
	case "send-failed":
		s.p.SendFailed(s.now, s.worker(a).binding)
	case "peer-lost":
		s.p.PeerLost(s.now, a.first())
	case "probed":
		s.p.Probed(s.now, s.worker(a).binding, map[string]ProbeResult{"alive": Alive, "gone": Gone, "unknown": Unknown}[a.str("result", "")])
	case "terminated":
		s.p.Terminated(s.now, Peer(a.first()))
	case "advance":
		v, err := time.ParseDuration(a.first())
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.now += v
		return ""
	case "tick":
		s.now += a.duration("after", 500*time.Millisecond)
		s.p.Tick(s.now, a.num("generation", s.p.generation))
	case "retire":
		return fmt.Sprintf("%+v", s.p.Retire(a.first()))
	case "release":
		s.p.Release(s.now, a.first())
	case "explain":
		state, ok := s.p.Explain(a.first())
		if !ok {
			return "not held"
		}
		return fmt.Sprintf("%+v", state)
	case "reject-many":
		w := s.worker(a)
		for sequence := uint64(1); sequence <= a.num("times", 1); sequence++ {
			w.control++
			s.p.Control(s.now, Peer(a.first()), &Control{
				Session: s.p.session, Binding: w.binding, Nonce: w.reg.Nonce, Number: w.control, Kind: Request,
				Confirmed: sequence, RequestedUpTo: sequence + 10, Exceptions: []Exception{{Sequence: sequence, Kind: Rejected, Reason: "bad"}},
			})
			s.now += s.p.cfg.RetryInterval
			s.p.Tick(s.now, s.p.generation)
		}
		s.p.Take()
		state, _ := s.p.Explain(a.str("id", ""))
		return fmt.Sprintf("attempt=%d remembered=%d first=%d", state.Attempt, len(state.Failures), state.Failures[0].Attempt)
	case "redrive":
		if !s.p.Redrive(s.now, a.first()) {
			return "no such dead letter"
		}
	case "drop":
		if !s.p.Drop(s.now, a.first()) {
			return "no such dead letter"
		}
	case "dead-letters":
		var b strings.Builder
		for _, j := range s.p.DeadLetters(int(a.num("limit", 100))) {
			fmt.Fprintf(&b, "%s:", j.ID)
			for _, f := range j.Failures() {
				fmt.Fprintf(&b, " [%d at %s after %s: %s]", f.Attempt, f.Worker, f.At, f.Reason)
			}
			b.WriteByte('\n')
		}
		return b.String()
	case "remembered":
		bytes := 0
		for _, j := range s.p.memory.jobs {
			bytes += len(j.Body().TypeURL) + len(j.Body().Value)
		}
		return fmt.Sprintf("%d jobs, payloads of %d bytes", len(s.p.memory.jobs), bytes)
	case "recall-due":
		s.p.RecallDue(s.now)
	case "late":
		s.p.Late(s.now, Peer(a.first()), a.num("session", s.p.session), HeldAttempt{ID: a.str("id", ""), Epoch: a.num("epoch", 0), Token: a.num("token", 0)})
	case "snapshot":
		return s.snapshot()
	case "inspect":
		return s.inspect()
	default:
		d.Fatalf(t, "no command %q", d.Cmd)
	}
	s.note()
	return s.text(d)
}

// under is the number of the operation under way, or of the last.
func (s *producerScript) under() uint64 {
	if o := s.p.lane.under.operation; o != nil {
		return o.Number
	}
	return s.p.lane.last
}

// heldAttempt reads one of the form id@epoch.token.
func heldAttempt(s string) *HeldAttempt {
	if s == "" {
		return nil
	}
	h := &HeldAttempt{}
	id, numbers, _ := strings.Cut(s, "@")
	h.ID = id
	_, _ = fmt.Sscanf(numbers, "%d.%d", &h.Epoch, &h.Token)
	return h
}

func describeHeld(name string, h *HeldAttempt) string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf(" %s=%s@%d.%d", name, h.ID, h.Epoch, h.Token)
}

func (s *producerScript) worker(a args) *worker {
	name := a.first()
	w := s.workers[name]
	if w == nil {
		w = &worker{reg: Registration{Producer: "jobs", Endpoint: name, Identity: name, Incarnation: "i1"}}
		s.workers[name] = w
	}
	w.reg.Producer = a.str("producer", w.reg.Producer)
	w.reg.Identity = a.str("identity", w.reg.Identity)
	w.reg.Incarnation = a.str("incarnation", w.reg.Incarnation)
	w.reg.Host = a.str("host", w.reg.Host)
	return w
}

func (s *producerScript) control(a args) {
	w := s.worker(a)
	w.control = a.num("control", w.control+1)
	m := &Control{
		Session: a.num("session", s.p.session), Binding: a.num("binding", w.binding), Nonce: a.num("nonce", w.reg.Nonce),
		Number: w.control, Kind: map[string]ControlKind{"request": Request, "ack": Ack, "farewell": Drain, "stop": Stop}[a.d.Cmd],
		Confirmed: a.num("confirmed", 0), RequestedUpTo: a.num("up-to", 0),
		ViaTimeout: a.has("via-timeout"), Received: a.ranges("received"), KeepUpTo: a.num("keep", 0),
		Started: a.num("started", 0), Announce: a.has("announce"),
	}
	for _, r := range a.ranges("rejected") {
		m.Exceptions = append(m.Exceptions, Exception{Sequence: r.First, Kind: Rejected, Reason: "bad"})
	}
	for _, r := range a.ranges("recalled") {
		m.Exceptions = append(m.Exceptions, Exception{Sequence: r.First, Kind: Recalled})
	}
	s.p.Control(s.now, Peer(a.str("from", a.first())), m)
}

// note takes the effects and remembers the last token.
func (s *producerScript) note() {
	for _, e := range s.p.Take() {
		if e.Kind == RequestNext {
			s.token = e.Token
		}
		s.pending = append(s.pending, e)
	}
}

func (s *producerScript) text(d *datadriven.TestData) string {
	var b strings.Builder
	for _, e := range s.pending {
		if d.Cmd == "submit" && e.Kind == Stored {
			continue
		}
		fmt.Fprintln(&b, describe(e))
	}
	s.pending = s.pending[:0]
	return b.String()
}

func (s *producerScript) snapshot() string {
	var b strings.Builder
	sn := s.p.Snapshot(s.now)
	fmt.Fprintf(&b, "waiting=%d in-flight=%d delayed=%d dead=%d accepted=%d confirmed=%d requeued=%d rejected=%d\n",
		sn.Waiting, sn.InFlight, sn.Delayed, sn.Dead, sn.Accepted, sn.Confirmed, sn.Requeued, sn.Rejected)
	for _, w := range sn.Workers {
		fmt.Fprintf(&b, "%s: demand=%d in-flight=%d confirmed=%d running=%q", w.Identity, w.Demand, w.InFlight, w.Confirmed, w.RunningID)
		if w.Suspended {
			b.WriteString(" suspended")
		}
		if w.Draining {
			b.WriteString(" draining")
		}
		if w.Retired {
			b.WriteString(" retired")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// inspect is what the operator looks at (B12).
func (s *producerScript) inspect() string {
	var b strings.Builder
	sn := s.p.Snapshot(s.now)
	fmt.Fprintf(&b, "pulse=%+v session=%d epoch=%d waiting=%d buffered=%d running=%d", s.p.Pulse(), sn.Session, sn.Epoch, sn.Waiting, sn.Buffered, sn.Running)
	if sn.Waiting > 0 {
		fmt.Fprintf(&b, " oldest=%v", sn.OldestAge)
	}
	b.WriteByte('\n')
	for _, w := range sn.Workers {
		fmt.Fprintf(&b, "%s: held=%d", w.Identity, w.InFlight)
		if w.InFlight == 0 {
			fmt.Fprintf(&b, " idle-since=%v", w.IdleSince)
		}
		if w.Running {
			fmt.Fprintf(&b, " runs=%s since=%v", w.RunningID, w.RunningSince)
		}
		if w.Uncertain {
			b.WriteString(" uncertain")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// describe writes an effect the way the transcripts show it.
func describe(e Effect) string {
	switch e.Kind {
	case RequestNext:
		return fmt.Sprintf("RequestNext token=%d", e.Token)
	case Stored:
		return fmt.Sprintf("Stored token=%d id=%s sequence=%d", e.Token, e.Job.ID, e.Job.StoreSequence)
	case DeliveryConfirmed:
		return fmt.Sprintf("DeliveryConfirmed id=%s sequence=%d", e.Job.ID, e.Job.StoreSequence)
	case Verify:
		return fmt.Sprintf("Verify %s", e.Peer)
	case Probe:
		return fmt.Sprintf("Probe %s binding=%d", e.Peer, e.Binding)
	case RegisterAck:
		s := fmt.Sprintf("RegisterAck to=%s binding=%d confirmed=%d nonce=%d", e.Peer, e.Binding, e.Confirmed, e.Nonce)
		if e.Retired {
			s += " retired"
		}
		return s + describeHeld("adopted", e.Adopted)
	case Bound:
		return fmt.Sprintf("Bound %s binding=%d", e.Peer, e.Binding)
	case Unbound:
		return fmt.Sprintf("Unbound %s binding=%d: %s", e.Peer, e.Binding, e.Reason)
	case Dispatch:
		if e.Delivery.Skip {
			return fmt.Sprintf("Dispatch to=%s %d:skip", e.Peer, e.Sequence)
		}
		s := fmt.Sprintf("Dispatch to=%s %d:%s attempt=%d", e.Peer, e.Sequence, e.Delivery.ID, e.Delivery.Attempt)
		if e.Delivery.Announce {
			s += " announce"
		}
		if e.Delivery.Payload.TypeURL == "" {
			s += " WITHOUT A PAYLOAD"
		}
		return s
	case DeadLettered:
		return fmt.Sprintf("DeadLettered %s after %d attempts", e.Job.ID, len(e.Job.Failures()))
	case Recall:
		return fmt.Sprintf("Recall from=%s %d", e.Peer, e.Sequence)
	case SetRecall:
		return "SetRecall"
	case SendLate:
		return fmt.Sprintf("Late to=%s %s token=%d", e.Peer, e.Delivery.ID, e.Delivery.Token)
	case ControlAck:
		return fmt.Sprintf("ControlAck to=%s control=%d", e.Peer, e.Control)
	case Failed:
		return fmt.Sprintf("Failed stage=%s: %v", e.Stage, e.Err)
	case Load:
		s := fmt.Sprintf("Load operation=%d", e.Operation.Number)
		if e.Operation.Epoch != 0 {
			s += fmt.Sprintf(" if-epoch=%d", e.Operation.Epoch)
		}
		return s
	case Fetch:
		return fmt.Sprintf("Fetch operation=%d epoch=%d %s", e.Operation.Number, e.Operation.Epoch, strings.Join(e.Operation.Fetches, " "))
	case Save:
		s := fmt.Sprintf("Save operation=%d epoch=%d", e.Operation.Number, e.Operation.Epoch)
		for _, k := range e.Operation.Saves {
			s += fmt.Sprintf(" %s[attempt=%d", k.ID, k.Attempt)
			for _, flag := range []struct {
				name string
				on   bool
			}{{"delayed", k.Delayed}, {"dead", k.Dead}, {"dropped", k.Dropped}} {
				if flag.on {
					s += " " + flag.name
				}
			}
			s += "]"
		}
		return s
	case Commit:
		return describeOperation(e.Operation)
	case Restarted:
		return fmt.Sprintf("Restarted session=%d", e.Session)
	case Resolve:
		return "Resolve"
	case SendRegister:
		s := fmt.Sprintf("Register to=%s nonce=%d", e.Peer, e.Registration.Nonce)
		if e.Registration.Draining {
			s += " draining"
		}
		if by := e.Registration.RetiredBy; by != 0 {
			s += fmt.Sprintf(" retired-by=%d", by)
		}
		return s + describeHeld("held", e.Registration.Held)
	case SendControl:
		return describeControl(e.Message)
	case Deliver:
		return fmt.Sprintf("Deliver %d:%s", e.Sequence, e.Delivery.ID)
	case SetFlush:
		return "SetFlush"
	case Drained:
		return "Drained"
	}
	return fmt.Sprintf("effect %d", e.Kind)
}

func describeOperation(o *QueueOperation) string {
	s := fmt.Sprintf("Commit operation=%d epoch=%d", o.Number, o.Epoch)
	for _, j := range o.Stores {
		s += fmt.Sprintf(" store=%s", j.ID)
		if j.Sequence != 0 {
			s += fmt.Sprintf("@%d", j.Sequence)
		}
	}
	for _, id := range o.Accepts {
		s += " accept=" + id
	}
	for _, id := range o.Confirms {
		s += " confirm=" + id
	}
	return s
}

func describeControl(m *Control) string {
	s := fmt.Sprintf("%s control=%d confirmed=%d", map[ControlKind]string{Request: "Request", Ack: "Ack", Drain: "Farewell", Stop: "Stop"}[m.Kind], m.Number, m.Confirmed)
	if m.Kind == Request {
		s += fmt.Sprintf(" up-to=%d", m.RequestedUpTo)
	}
	if m.Kind == Drain {
		s += fmt.Sprintf(" keep=%d", m.KeepUpTo)
	}
	if m.Announce {
		s += fmt.Sprintf(" announce=%d", m.Started)
	}
	if m.ViaTimeout {
		s += " via-timeout"
	}
	for _, r := range m.Received {
		s += fmt.Sprintf(" received=%d-%d", r.First, r.Last)
	}
	for _, x := range m.Exceptions {
		s += fmt.Sprintf(" %s=%d", map[ExceptionKind]string{Rejected: "rejected", Recalled: "recalled"}[x.Kind], x.Sequence)
	}
	return s
}

type consumerScript struct {
	c                         *Consumer
	now                       time.Duration
	session, binding          uint64 // of the last acknowledgement
	handedSession, handedBind uint64 // of the last delivery
}

func (s *consumerScript) run(t *testing.T, d *datadriven.TestData) string {
	a := args{t, d}
	producer := Peer(a.str("from", "controller"))
	switch d.Cmd {
	case "new":
		c, err := NewConsumer(ConsumerConfig{
			Producer: a.str("producer", "jobs"), Endpoint: "w", Identity: a.str("identity", "w"), Incarnation: "i1",
			Actor: Peer(a.str("actor", "w")), Window: int(a.num("window", 4)), ResendInterval: a.duration("resend", 2*time.Second),
			FirstNonce: a.num("first-nonce", 0),
		})
		if err != nil {
			return err.Error()
		}
		*s = consumerScript{c: c}
		s.c.Start(s.now)
	case "resolved":
		if a.has("nobody") {
			producer = ""
		}
		s.c.Resolved(s.now, producer)
	case "register-ack":
		s.session, s.binding = a.num("session", session1), a.num("binding", 11)
		g := Grant{
			Confirmed: a.num("confirmed", 0), Nonce: a.num("nonce", s.c.nonce), Lease: a.duration("lease", DefaultLease), Retired: a.has("retired"),
			Epoch: a.num("epoch", 0), Adopted: heldAttempt(a.str("adopted", "")),
		}
		s.c.RegisterAck(s.now, producer, s.session, s.binding, g)
	case "batch":
		var jobs []*Delivery
		for _, arg := range d.CmdArgs {
			seq, id, ok := strings.Cut(arg.Key, ":")
			if !ok {
				continue
			}
			n, _ := strconv.ParseUint(seq, 10, 64)
			jobs = append(jobs, &Delivery{Sequence: n, ID: id, Attempt: 1, Token: n, Epoch: a.num("epoch", 0), Skip: id == "skip", Announce: a.has("announce")})
		}
		s.c.Batch(s.now, producer, a.num("session", s.session), a.num("binding", s.binding), jobs)
	case "confirm", "reject":
		seq, id, _ := strings.Cut(a.first(), ":")
		n, _ := strconv.ParseUint(seq, 10, 64)
		from := Peer(a.str("from", "w"))
		sess, bind := a.num("session", s.handedSession), a.num("binding", s.handedBind)
		if d.Cmd == "confirm" {
			s.c.Confirmed(s.now, from, sess, bind, n, id)
		} else {
			s.c.Rejected(s.now, from, sess, bind, n, id, "bad")
		}
	case "control-ack":
		s.c.ControlAck(s.now, producer, s.session, a.num("binding", s.binding), a.num("control", s.c.control))
	case "recall":
		s.c.Recall(s.now, producer, s.session, a.num("binding", s.binding), a.num("sequence", 0))
	case "restarted":
		s.c.HandlerRestarted(s.now)
	case "producer-stopped":
		s.c.ProducerStopped(s.now, producer)
	case "flush":
		s.c.Flush(s.now)
	case "tick":
		s.now += s.c.Interval()
		s.c.Tick(s.now)
	case "drain":
		s.c.Drain(s.now)
	case "stop":
		s.c.Stop(s.now)
	case "interval":
		return s.c.Interval().String()
	case "status":
		return fmt.Sprintf("%+v", s.c.Status())
	default:
		d.Fatalf(t, "no command %q", d.Cmd)
	}
	var b strings.Builder
	for _, e := range s.c.Take() {
		if e.Kind == Deliver {
			s.handedSession, s.handedBind = e.Session, e.Binding
		}
		fmt.Fprintln(&b, describe(e))
	}
	return b.String()
}
