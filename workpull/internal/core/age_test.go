package core

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The age that is told for the oldest waiting job is the true one, or higher by
// no more than a 32nd of what the oldest had waited when it was accepted, or by
// a step; the marks stay few (B12).
func TestAgeOfTheOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now time.Duration
		a := ages{marks: []mark{{}}}
		var accepted, waited []time.Duration // by sequence, from 1: when, and how long the oldest had waited then
		done := 0
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond
			for range rapid.IntRange(0, 20).Draw(t, "jobs") {
				now += time.Duration(rapid.IntRange(0, 3).Draw(t, "gap")) * time.Millisecond
				accepted = append(accepted, now)
				waited = append(waited, now-accepted[done])
				a.note(now, uint64(len(accepted)), uint64(done+1))
			}
			done += rapid.IntRange(0, len(accepted)-done).Draw(t, "done")
			if len(a.marks) > maxMarks {
				t.Fatalf("%d marks", len(a.marks))
			}
			if done == len(accepted) {
				continue
			}
			truth, told := now-accepted[done], a.of(now, uint64(done+1))
			if told < truth || told > truth+max(ageStep, waited[done]/32) {
				t.Fatalf("job %d was accepted %v ago, told %v; marks %v", done+1, truth, told, a.marks)
			}
		}
	})
}

// A backlog that only grows keeps its marks within their bound, and they stay
// spread over all of it.
func TestAgeOfALongBacklog(t *testing.T) {
	a := ages{marks: []mark{{}}}
	const jobs = 10_000_000
	gap := 10 * time.Millisecond // 28 hours in all
	for sequence := uint64(1); sequence <= jobs; sequence++ {
		a.note(time.Duration(sequence)*gap, sequence, 1)
		if len(a.marks) > maxMarks {
			t.Fatalf("%d marks after %d jobs", len(a.marks), sequence)
		}
	}
	now := jobs * gap
	for sequence := uint64(1); sequence < jobs; sequence += jobs / 100 {
		truth, told := now-time.Duration(sequence)*gap, a.of(now, sequence)
		if told < truth || told > truth+now/16 {
			t.Fatalf("job %d was accepted %v ago, told %v", sequence, truth, told)
		}
	}
}
