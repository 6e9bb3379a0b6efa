package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// FaultKind is one way in which something goes wrong.
type FaultKind uint8

// Kinds of faults. Those up to Delay befall messages, those from Crash on
// strike on a timeline of their own, the rest where something happens anyway.
const (
	Drop          FaultKind = iota // lost, and nobody is told
	SendFailure                    // lost, and the sender is told
	UncertainSend                  // arrives, and the sender is told that it may not have
	Duplicate
	Reorder // overtaken by what was sent within 100 ms
	Delay   // for up to ten seconds
	Hang    // a handler runs for longer than the lease, or for ever
	Rejection
	LateTick // of either party
	LateProbe
	UnansweredProbe
	LateVerification
	FailedVerification // the look-up ran into its time-out
	LateAnswer         // of the producer actor
	RepeatedAnswer
	Resubmission // a MessageID that is held already, or is done
	OperationNotDone
	OperationAnswerLost // done, and the producer hears of an error
	Fence               // another writer loads the queue
	FenceUnseen         // and the operation is not carried out for another reason
	OperationConflict
	SlowQueue       // an answer takes seconds
	RepeatedOutcome // an answer comes twice
	AncientOutcome  // the answer to an older incarnation's operation of the same number
	LoadFailure
	OlderController // one that was replaced answers a registration as well
	Crash
	Restart  // of a dead worker, at times under its identity, or at its address
	Takeover // a second worker under the identity of one that lives
	Suspension
	Panic
	ProducerPause
	WorkerPause
	Partition // of one link, both ways
	ProducerRestart
	DrainWorker
	RetireWorker
	Violation // an illegal control message
	LostConnection
	faultKinds
)

// faultTable holds, for each kind: its name; how likely it is, in ten
// thousands for those that strike where something happens, as a weight for
// those of the timeline; and how often it has to strike in fullSeeds seeds.
var faultTable = [faultKinds]struct {
	name  string
	rate  uint64
	floor int
}{
	Drop:                {"drop", 200, 10_000},
	SendFailure:         {"send-failure", 50, 1_000},
	UncertainSend:       {"uncertain-send", 50, 1_000},
	Duplicate:           {"duplicate", 250, 10_000},
	Reorder:             {"reorder", 400, 10_000},
	Delay:               {"delay", 40, 2_000},
	Hang:                {"hang", 200, 1_000},
	Rejection:           {"rejection", 250, 2_000},
	LateTick:            {"late-tick", 500, 2_000},
	LateProbe:           {"late-probe", 1_500, 200},
	UnansweredProbe:     {"unanswered-probe", 1_500, 200},
	LateVerification:    {"late-verification", 600, 200},
	FailedVerification:  {"failed-verification", 600, 200},
	LateAnswer:          {"late-answer", 100, 200},
	RepeatedAnswer:      {"repeated-answer", 300, 1_000},
	Resubmission:        {"resubmission", 150, 500},
	OperationNotDone:    {"operation-not-done", 15, 200},
	OperationAnswerLost: {"operation-answer-lost", 15, 100},
	Fence:               {"fence", 4, 60},
	FenceUnseen:         {"fence-unseen", 6, 60},
	OperationConflict:   {"operation-conflict", 4, 60},
	SlowQueue:           {"slow-queue", 50, 800},
	RepeatedOutcome:     {"repeated-outcome", 150, 2_000},
	AncientOutcome:      {"ancient-outcome", 40, 400},
	LoadFailure:         {"load-failure", 800, 200},
	OlderController:     {"older-controller", 800, 200},
	Crash:               {"crash", 20, 1_000},
	Restart:             {"restart", 60, 1_000},
	Takeover:            {"takeover", 6, 300},
	Suspension:          {"suspension", 6, 300},
	Panic:               {"panic", 20, 500},
	ProducerPause:       {"producer-pause", 3, 200},
	WorkerPause:         {"worker-pause", 8, 300},
	Partition:           {"partition", 10, 500},
	ProducerRestart:     {"producer-restart", 2, 100},
	DrainWorker:         {"drain", 12, 500},
	RetireWorker:        {"retire", 10, 500},
	Violation:           {"violation", 4, 200},
	LostConnection:      {"lost-connection", 6, 300},
}

// String is the kind's name.
func (k FaultKind) String() string { return faultTable[k].name }

// Key names one decision of a run: the place where it is taken and the how
// manieth it is there. What is drawn for it depends on the seed and the key
// alone, so that leaving one fault out leaves the dice of the others as they
// were.
type Key struct{ Place, Number uint32 }

// String writes a key as -only reads it.
func (k Key) String() string { return fmt.Sprintf("%d.%d", k.Place, k.Number) }

// ParseKeys reads what String wrote, separated by commas.
func ParseKeys(text string) (map[Key]bool, error) {
	keys := map[Key]bool{}
	for part := range strings.SplitSeq(text, ",") {
		place, number, _ := strings.Cut(part, ".")
		p, err := strconv.ParseUint(place, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w", part, err)
		}
		keys[Key{uint32(p), uint32(n)}] = true
	}
	return keys, nil
}

// Fault is one that struck.
type Fault struct {
	Key
	Kind FaultKind
	At   time.Duration
}

// Places of decisions. The last are those of one worker slot each.
const (
	placeConfig = iota
	placeTimeline
	placeVerify
	placeProbe
	placeActor
	placeProducerTick
	placeSwarm
	placeDead
	placeQueue
	placeOlder
	placeSlots = 16

	toWorker   = 0 // within a slot: messages to it
	toProducer = 1
	atHandler  = 2
	atTick     = 3
	atStart    = 4
	perSlot    = 8
)

func placeOf(slot int32, what uint32) uint32 { return placeSlots + uint32(slot)*perSlot + what }

// dice is what was drawn for one decision; each question uses up part of it.
type dice uint64

// below is a number from 0 to n-1.
func (d *dice) below(n uint64) uint64 {
	v := uint64(*d) % n
	*d /= dice(n)
	return v
}

// upTo is a time from zero to limit, in whole microseconds.
func (d *dice) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.below(uint64(limit/time.Microsecond)+1)) * time.Microsecond
}

// between is a time from low to high.
func (d *dice) between(low, high time.Duration) time.Duration { return low + d.upTo(high-low) }

func draw(seed uint64, k Key) dice {
	var source rand.PCG
	source.Seed(seed, uint64(k.Place)<<32|uint64(k.Number))
	source.Uint64()
	return dice(source.Uint64())
}

// roll takes the next decision at a place.
func (w *World) roll(place uint32) (dice, Key) {
	k := Key{place, w.counters[place]}
	w.counters[place]++
	return draw(w.opt.Seed, k), k
}

// fate is which of the kinds strikes here, if one does.
func (w *World) fate(d *dice, k Key, kinds ...FaultKind) (FaultKind, bool) {
	x := d.below(10_000)
	if !w.faults {
		return 0, false
	}
	for _, kind := range kinds {
		if rate := w.rate[kind]; x >= rate {
			x -= rate
			continue
		}
		return kind, w.allowed(k)
	}
	return 0, false
}

// strikes tells whether a fault of one kind strikes here, and notes it.
func (w *World) strikes(d *dice, k Key, kind FaultKind) bool {
	if _, ok := w.fate(d, k, kind); !ok {
		return false
	}
	w.struck(k, kind)
	return true
}

func (w *World) allowed(k Key) bool { return w.opt.Only == nil || w.opt.Only[k] }

// struck notes a fault that had an effect.
func (w *World) struck(k Key, kind FaultKind) {
	w.Count[kind]++
	w.Faults = append(w.Faults, Fault{Key: k, Kind: kind, At: w.now})
	if w.tracing {
		w.say("FAULT %s (%s)", kind, k)
	}
}

// swarm chooses which kinds of faults this seed knows, and how many of each:
// histories with a few kinds in plenty show what a mixture of all hides.
func (w *World) swarm() {
	for kind := range faultKinds {
		d := draw(w.opt.Seed, Key{placeSwarm, uint32(kind)})
		w.rate[kind] = faultTable[kind].rate * []uint64{0, 1, 1, 2, 4}[d.below(5)]
	}
}
