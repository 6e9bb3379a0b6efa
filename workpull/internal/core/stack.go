package core

// stack holds the bindings that could take a job and hold none, the last used
// on top. One that was never used lies at the bottom: a pool that can shrink
// should not be woken up.
type stack struct{ head, tail *binding }

// put adds or removes a binding.
func (s *stack) put(b *binding, in bool) {
	switch {
	case in == b.stacked:
	case !in:
		s.remove(b)
	case b.used:
		b.below, s.head = s.head, b
		if b.below == nil {
			s.tail = b
		} else {
			b.below.above = b
		}
	default:
		b.above, s.tail = s.tail, b
		if b.above == nil {
			s.head = b
		} else {
			b.above.below = b
		}
	}
	b.stacked = in
}

func (s *stack) remove(b *binding) {
	if b.above == nil {
		s.head = b.below
	} else {
		b.above.below = b.below
	}
	if b.below == nil {
		s.tail = b.above
	} else {
		b.below.above = b.above
	}
	b.above, b.below = nil, nil
}
