package sim

import (
	"testing"
	"time"
)

// TestAgenda: events come in the order of their time, and those of one moment
// in the order in which they were put down.
func TestAgenda(t *testing.T) {
	var a agenda
	d := uint32(0)
	for range 200 {
		for range 50 {
			d++
			roll := draw(1, Key{placeSwarm, d})
			a.push(event{at: roll.upTo(100 * time.Microsecond), order: uint64(d)})
		}
		var last event
		for range 45 {
			e := a.pop()
			if e.before(&last) {
				t.Fatalf("%+v came after %+v", e, last)
			}
			last = e
		}
	}
	last := a.pop()
	for len(a) > 0 {
		e := a.pop()
		if e.before(&last) {
			t.Fatalf("%+v came after %+v", e, last)
		}
		last = e
	}
}
