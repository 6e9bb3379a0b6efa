package sim

// Sights are what follows from faults and has to be seen often enough for the
// histories to mean something.
const (
	Recalls = iota
	GivenBack
	LateConfirmations
	DeadLetters
	Redriven
	Dropped
	Suspended
	LeasesLost
	Replacements
	GoneWorkers
	StoppedWorkers
	Violators
	Resent
	SecondRuns
	Refused
	RetiredRebound
	Failures
	Respawns
	Resets
	StaleAnswers
	FencedOrphans
	LoadedUnaccepted
	RunAfterLoad
	ResubmittedDone
	UntoldConfirmations
	Pages
	Saves
	ResumedDelayed
	ResumedDead
	ResumedDropped
	ToldAgain
	ReloadsFenced
	Adoptions
	AdoptedWhenOver
	AdoptedAndBack
	LateOfEarlier
	OlderRefused
	sights
)

var sightTable = [sights]struct {
	name  string
	floor int
}{
	Recalls: {"recall", 2_000}, GivenBack: {"job given back", 1_000}, LateConfirmations: {"late confirmation", 15},
	DeadLetters: {"dead letter", 500}, Redriven: {"redriven", 300}, Dropped: {"dropped", 100},
	Suspended: {"suspended binding", 500}, LeasesLost: {"lease lost", 300}, Replacements: {"replaced binding", 100},
	GoneWorkers: {"worker gone", 300}, StoppedWorkers: {"worker stopped", 100}, Violators: {"violator", 100},
	Resent: {"job sent again", 2_000}, SecondRuns: {"second run", 1_000}, Refused: {"second worker refused", 100},
	RetiredRebound: {"retired worker bound again", 20},
	Failures:       {"terminal failure", 200}, Respawns: {"respawn", 200}, Resets: {"reset", 500},
	StaleAnswers: {"stale answer of the queue", 1_000}, FencedOrphans: {"operation of an older session fenced", 20},
	LoadedUnaccepted: {"loaded and not accepted", 200}, RunAfterLoad: {"run again after a load", 1_000},
	ResubmittedDone: {"resubmitted when done", 200}, UntoldConfirmations: {"confirmed and not told", 50},
	Pages: {"page of payloads", 20_000}, Saves: {"progress saved", 1_500}, ResumedDelayed: {"delayed after a load", 15}, ResumedDead: {"dead after a load", 40},
	ResumedDropped: {"given up after a load", 2}, ToldAgain: {"told again", 200}, ReloadsFenced: {"reload fenced", 50}, Adoptions: {"adopted", 500},
	AdoptedWhenOver: {"adopted when it was over", 15}, AdoptedAndBack: {"adopted and given back", 2}, LateOfEarlier: {"late confirmation of an earlier epoch", 40}, OlderRefused: {"lower epoch refused", 300},
}
