package core

import "math/bits"

// slotSet is a set of bindings, as a bitmap over their slots in registration
// order with a summary bitmap above it, so that the next one after any slot is
// found in a few word operations however many there are.
type slotSet struct {
	words   []uint64 // bit s%64 of word s/64: slot s is in the set
	summary []uint64 // bit w%64 of summary w/64: words[w] is not zero
}

func (e *slotSet) grow(slot int) {
	for len(e.words) <= slot/64 {
		e.words = append(e.words, 0)
	}
	for len(e.summary) <= slot/64/64 {
		e.summary = append(e.summary, 0)
	}
}

// put adds or removes a slot.
func (e *slotSet) put(slot int, in bool) {
	if in {
		e.add(slot)
	} else {
		e.remove(slot)
	}
}

func (e *slotSet) empty() bool {
	_, ok := e.seek(0)
	return !ok
}

func (e *slotSet) add(slot int) {
	e.grow(slot)
	w := slot / 64
	e.words[w] |= 1 << (slot % 64)
	e.summary[w/64] |= 1 << (w % 64)
}

func (e *slotSet) remove(slot int) {
	w := slot / 64
	if w >= len(e.words) {
		return
	}
	e.words[w] &^= 1 << (slot % 64)
	if e.words[w] == 0 {
		e.summary[w/64] &^= 1 << (w % 64)
	}
}

// next returns the first slot of the set at or after from, going round; ok is
// false when the set is empty.
func (e *slotSet) next(from int) (slot int, ok bool) {
	if s, found := e.seek(from); found {
		return s, true
	}
	return e.seek(0)
}

func (e *slotSet) seek(from int) (int, bool) {
	w := from / 64
	if w >= len(e.words) {
		return 0, false
	}
	if rest := e.words[w] >> (from % 64); rest != 0 {
		return from + bits.TrailingZeros64(rest), true
	}
	w++
	for s := w / 64; s < len(e.summary); s++ {
		word := e.summary[s]
		if s == w/64 {
			word = word >> (w % 64) << (w % 64)
		}
		if word != 0 {
			w = s*64 + bits.TrailingZeros64(word)
			return w*64 + bits.TrailingZeros64(e.words[w]), true
		}
	}
	return 0, false
}
