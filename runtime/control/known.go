package control

import "time"

// Known is a value that may be absent. The zero Known is absent: not known, and
// nothing else.
type Known[T comparable] struct {
	value T
	known bool
}

// Some is a value that is known.
func Some[T comparable](value T) Known[T] { return Known[T]{value: value, known: true} }

// Get returns the value, and whether it is known.
func (k Known[T]) Get() (T, bool) { return k.value, k.known }

// Is tells whether the value is known and is this one.
func (k Known[T]) Is(value T) bool { return k.known && k.value == value }

// Moment is a time to the millisecond, as the wire has it. The zero time is not
// known.
func Moment(t time.Time) Known[time.Time] {
	if t.IsZero() {
		return Known[time.Time]{}
	}
	return Some(time.UnixMilli(t.UnixMilli()))
}
