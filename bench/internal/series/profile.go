package series

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
)

// Run is what a run has beside its experiment.
type Run struct {
	Profile string // beginning of the profiles' names, if they are wanted
	notes   []string
}

// Note adds a remark to those that are printed below the table.
func (r *Run) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Measured runs what is measured, under a CPU profile if one is wanted.
func (r *Run) Measured(f func() error) error { return Profiled(r.Profile, f) }

// Profiled writes profiles of f as <beginning>.cpu.prof and
// <beginning>.alloc.prof; the second counts from the start of the process.
func Profiled(beginning string, f func() error) (err error) {
	if beginning == "" {
		return f()
	}
	cpu, err := os.Create(beginning + ".cpu.prof")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, writeAllocations(beginning+".alloc.prof"))
}

func writeAllocations(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	runtime.GC()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}

// Allocations says who allocates most often, per job, for jobs since the start
// of the process.
func Allocations(jobs int64) string {
	const shown = 10
	var said []string
	all := allocators()
	for _, a := range all[:min(shown, len(all))] {
		said = append(said, fmt.Sprintf("%s %.2f (%.0f B)", a.name, a.objects/float64(jobs), a.bytes/float64(jobs)))
	}
	return "allocations per job (bytes), the first by number: " + strings.Join(said, ", ")
}

// allocator is a function and what it allocated itself, in estimated numbers.
type allocator struct {
	name           string
	objects, bytes float64
}

// allocators lists the functions of this process by what they allocated since
// its start, the greediest in objects first.
func allocators() []allocator {
	runtime.GC() // twice: the profile is as of the cycle before the last
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1000)
	n, ok := runtime.MemProfile(records, true)
	for !ok {
		records = make([]runtime.MemProfileRecord, 2*n)
		n, ok = runtime.MemProfile(records, true)
	}
	byName := map[string]*allocator{}
	for i := range records[:n] {
		r := &records[i]
		if r.AllocObjects == 0 {
			continue
		}
		name := allocatedBy(r.Stack())
		a := byName[name]
		if a == nil {
			a = &allocator{name: name}
			byName[name] = a
		}
		scale := sampleScale(float64(r.AllocBytes)/float64(r.AllocObjects), float64(runtime.MemProfileRate))
		a.objects += scale * float64(r.AllocObjects)
		a.bytes += scale * float64(r.AllocBytes)
	}
	list := make([]allocator, 0, len(byName))
	for _, a := range byName {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b allocator) int {
		if a.objects != b.objects {
			if a.objects > b.objects {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}

// sampleScale is how many objects of a size one sample stands for, when on
// average one is taken every rate bytes.
func sampleScale(size, rate float64) float64 {
	return 1 / (1 - math.Exp(-size/rate))
}

// allocatedBy is the function that asked the runtime for memory, without its
// package's path.
func allocatedBy(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") || !more {
			return frame.Function[strings.LastIndexByte(frame.Function, '/')+1:]
		}
	}
}
