package scaling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// TestTranscripts runs the files under testdata/stories. Each is a story: commands say
// what there is and what is known, `decide` shows what becomes of it. Headings
// name the scenarios.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := newScript()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(args{t, d})
		})
	})
}

// script is the world of one story.
type script struct {
	now      time.Time
	producer ProducerState
	pools    []Pool
}

func newScript() *script {
	return &script{now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)} // a Monday
}

func (s *script) run(a args) string {
	switch a.d.Cmd {
	case "begin": // a world without anything
		*s = *newScript()
	case "time":
		now, err := time.Parse(time.RFC3339, a.first())
		a.must(err)
		s.now = now
		if s.producer.Snapshot != nil {
			s.producer.Snapshot.At = now
		}
	case "pool":
		s.setPool(a)
	case "behavior":
		s.setBehavior(a)
	case "schedule":
		s.addSchedule(a)
	case "worker":
		s.setWorkers(a)
	case "gone":
		s.removeWorkers(a)
	case "producer":
		s.producer.Stale, s.producer.Gone = a.has("stale"), a.has("gone")
		if a.has("silent") {
			s.producer.Snapshot = nil
		}
	case "snapshot":
		s.producer.Snapshot = snapshotOf(a, s.now)
	case "leader": // another operator takes over: it remembers nothing
		s.producer.History = History{}
	case "decide":
		return s.decide(a)
	default:
		a.d.Fatalf(a.t, "unknown command %s", a.d.Cmd)
	}
	return ""
}

func (s *script) pool(name string) *Pool {
	i := slices.IndexFunc(s.pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		s.pools = append(s.pools, Pool{Name: name, Slots: 1, StartupDeadline: 600 * time.Second,
			Autoscaling: &Autoscaling{MaxReplicas: 50, TargetDrain: 30 * time.Second, IdleTimeout: time.Minute}})
		i = len(s.pools) - 1
	}
	return &s.pools[i]
}

func (s *script) setPool(a args) {
	p := s.pool(a.first())
	if a.has("external") {
		p.Autoscaling = nil
	}
	if a.has("replicas") {
		n := int32(a.num("replicas", 0))
		p.Replicas = &n
	}
	p.Weight = int32(a.num("weight", int(p.Weight)))
	p.Slots = a.num("slots", p.Slots)
	p.StartupDeadline = a.duration("startup", p.StartupDeadline)
	if a.has("suspend") {
		p.Suspend = a.num("suspend", 1) == 1
	}
	if as := p.Autoscaling; as != nil {
		as.MinReplicas, as.MaxReplicas = a.num("min", as.MinReplicas), a.num("max", as.MaxReplicas)
		as.TargetDrain, as.IdleTimeout = a.duration("drain", as.TargetDrain), a.duration("idle", as.IdleTimeout)
		if a.has("per-slot") {
			as.TargetDrain, as.TargetJobsPerSlot = 0, *a.float("per-slot")
		}
	}
}

// setBehavior reads e.g. `behavior a down window=60 select=Min policies=(Pods/1/60,Percent/10/60)`.
func (s *script) setBehavior(a args) {
	rules := &autoscalingv2.HPAScalingRules{}
	if a.has("window") {
		n := int32(a.num("window", 0))
		rules.StabilizationWindowSeconds = &n
	}
	if a.has("select") {
		policy := autoscalingv2.ScalingPolicySelect(a.str("select", ""))
		rules.SelectPolicy = &policy
	}
	for _, text := range a.list("policies") {
		part := strings.Split(text, "/")
		value, err := strconv.Atoi(part[1])
		a.must(err)
		period, err := strconv.Atoi(part[2])
		a.must(err)
		rules.Policies = append(rules.Policies, autoscalingv2.HPAScalingPolicy{
			Type: autoscalingv2.HPAScalingPolicyType(part[0]), Value: int32(value), PeriodSeconds: int32(period)})
	}
	as := s.pool(a.first()).Autoscaling
	if a.has("up") {
		as.ScaleUp = rules
	}
	if a.has("down") {
		as.ScaleDown = rules
	}
}

func (s *script) addSchedule(a args) {
	cron := strings.Split(a.d.Input, "\n")
	if len(cron) != 2 {
		a.d.Fatalf(a.t, "wanted two lines, start and end")
	}
	schedule, err := ParseSchedule(a.str("name", "schedule"), a.str("zone", ""), cron[0], cron[1])
	a.must(err)
	schedule.MinReplicas, schedule.MaxReplicas = a.optionalInt("min"), a.optionalInt("max")
	as := s.pool(a.first()).Autoscaling
	as.Schedules = append(as.Schedules, schedule)
}

var phases = map[string]Phase{"unscheduled": Unscheduled, "starting": Starting, "ready": Ready, "notready": NotReady,
	"failing": Failing, "lost": Lost, "terminating": Terminating}

// setWorkers reads e.g. `worker a-0 a-1 ready held=0 idle=90s for=10m`: the
// pool is what comes before the dash. What a worker holds is unknown unless it
// is said. `since` counts from now.
func (s *script) setWorkers(a args) {
	w := Worker{Phase: Ready, Since: s.now.Add(-a.duration("for", 10*time.Minute)),
		Held: a.optionalInt("held"), Retiring: a.has("retiring"), Leaving: a.has("leaving"), Disrupted: a.has("disrupted")}
	if a.has("idle") {
		since := s.now.Add(-a.duration("idle", 0))
		zero := 0
		w.IdleSince, w.Held = &since, &zero
	}
	var named []string
	for _, arg := range a.d.CmdArgs {
		if phase, ok := phases[arg.Key]; ok {
			w.Phase = phase
		} else if strings.Contains(arg.Key, "-") {
			named = append(named, arg.Key)
		}
	}
	for _, name := range named {
		pool, _, _ := strings.Cut(name, "-")
		p := s.pool(pool)
		p.Workers = slices.DeleteFunc(p.Workers, func(w Worker) bool { return w.Name == name })
		w.Name = name
		p.Workers = append(p.Workers, w)
	}
}

func (s *script) removeWorkers(a args) {
	for _, arg := range a.d.CmdArgs {
		pool, _, _ := strings.Cut(arg.Key, "-")
		p := s.pool(pool)
		p.Workers = slices.DeleteFunc(p.Workers, func(w Worker) bool { return w.Name == arg.Key })
	}
}

func snapshotOf(a args, now time.Time) *Snapshot {
	s := &Snapshot{At: now.Add(-a.duration("age", 0)), Waiting: a.int64("waiting"), Buffered: a.int64("buffered"), Running: a.int64("running"),
		Delayed: a.int64("delayed"), ArrivalRate: a.float("arrivals"), ServiceRate: a.float("service"),
		RejectionRate: a.float("rejections")}
	if a.has("job") {
		d := a.duration("job", 0)
		s.JobTime = &d
	}
	if a.has("residual") {
		d := a.duration("residual", 0)
		s.Residual = &d
	}
	if a.has("last") {
		last := now.Add(-a.duration("last", 0))
		s.LastArrival = &last
	}
	return s
}

// decide lets time pass (`after=10s`), keeps the snapshot fresh unless it is
// stale, and decides. With `apply` the pods are made (in the phase of `as`) and
// the victims removed.
func (s *script) decide(a args) string {
	passed := a.duration("after", 0)
	s.now = s.now.Add(passed)
	if snapshot := s.producer.Snapshot; snapshot != nil && !s.producer.Stale && !a.has("unheard") {
		fresh := *snapshot
		fresh.At = fresh.At.Add(passed)
		s.producer.Snapshot = &fresh
	}
	decisions, history := Decide(s.producer, s.pools, s.now)
	s.producer.History = history
	var b strings.Builder
	for i, d := range decisions {
		fmt.Fprintf(&b, "%s: desired %d", d.Pool, d.Desired)
		if !d.Owned {
			b.WriteString(" (not ours to write)")
		}
		if d.Create > 0 {
			fmt.Fprintf(&b, ", create %d", d.Create)
		}
		if len(d.Victims) > 0 {
			fmt.Fprintf(&b, ", victims %s", strings.Join(d.Victims, " "))
		}
		if len(d.Drain) > 0 {
			fmt.Fprintf(&b, ", drain %s", strings.Join(d.Drain, " "))
		}
		if d.LimitedBy != Unlimited {
			fmt.Fprintf(&b, ", limited by %s", d.LimitedBy)
		}
		fmt.Fprintf(&b, "\n  %s\n", d.Reason)
		if a.has("apply") {
			s.apply(&s.pools[i], d, phases[a.str("as", "starting")])
		}
	}
	return b.String()
}

func (s *script) apply(p *Pool, d Decision, as Phase) {
	p.Workers = slices.DeleteFunc(p.Workers, func(w Worker) bool { return slices.Contains(d.Victims, w.Name) })
	for slot := 0; d.Create > 0; slot++ {
		name := fmt.Sprintf("%s-%d", p.Name, slot)
		if !slices.ContainsFunc(p.Workers, func(w Worker) bool { return w.Name == name }) {
			p.Workers = append(p.Workers, Worker{Name: name, Phase: as, Since: s.now})
			d.Create--
		}
	}
}

// args reads the arguments of one command by name.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) must(err error) {
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
}

func (a args) has(name string) bool { return a.d.HasArg(name) }

func (a args) first() string {
	if len(a.d.CmdArgs) == 0 {
		a.d.Fatalf(a.t, "wanted a name")
	}
	return a.d.CmdArgs[0].Key
}

func (a args) list(name string) []string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == name {
			return arg.Vals
		}
	}
	return nil
}

func (a args) str(name, otherwise string) string {
	if vals := a.list(name); len(vals) > 0 {
		return vals[0]
	}
	return otherwise
}

func (a args) num(name string, otherwise int) int {
	n, err := strconv.Atoi(a.str(name, strconv.Itoa(otherwise)))
	a.must(err)
	return n
}

func (a args) optionalInt(name string) *int {
	if !a.has(name) {
		return nil
	}
	n := a.num(name, 0)
	return &n
}

func (a args) int64(name string) *int64 {
	if !a.has(name) {
		return nil
	}
	n := int64(a.num(name, 0))
	return &n
}

func (a args) float(name string) *float64 {
	if !a.has(name) {
		return nil
	}
	f, err := strconv.ParseFloat(a.str(name, ""), 64)
	a.must(err)
	return &f
}

func (a args) duration(name string, otherwise time.Duration) time.Duration {
	d, err := time.ParseDuration(a.str(name, otherwise.String()))
	a.must(err)
	return d
}
