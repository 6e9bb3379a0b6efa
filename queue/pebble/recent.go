package pebble

// recent remembers the latest of something by MessageID, within a bound.
type recent[V any] struct {
	count, bytes int // at most; bytes counts the MessageIDs
	known        map[string]numbered[V]
	// order holds all that were put, the oldest first, also those that were put
	// again since: what tells is the number.
	order []numberedID
	used  int // of bytes
	last  uint64
}

type numbered[V any] struct {
	number uint64
	value  V
}

type numberedID struct {
	id     string
	number uint64
}

func newRecent[V any](count, bytes int) *recent[V] {
	return &recent[V]{count: count, bytes: bytes, known: map[string]numbered[V]{}}
}

func (r *recent[V]) get(id string) (V, bool) {
	n, ok := r.known[id]
	return n.value, ok
}

func (r *recent[V]) put(id string, value V) {
	r.last++
	r.known[id] = numbered[V]{r.last, value}
	r.order = append(r.order, numberedID{id, r.last})
	r.used += len(id)
}

// trim forgets the oldest beyond the bounds, but none of the latest that are to
// be kept.
func (r *recent[V]) trim(keep int) {
	n := 0
	for n < len(r.order)-keep && (len(r.order)-n > r.count || r.used > r.bytes) {
		old := r.order[n]
		r.order[n] = numberedID{}
		if r.known[old.id].number == old.number {
			delete(r.known, old.id)
		}
		r.used -= len(old.id)
		n++
	}
	r.order = r.order[n:] // append moves it when the room behind is used up
}

func (r *recent[V]) clear() {
	clear(r.known)
	r.order, r.used = nil, 0
}
