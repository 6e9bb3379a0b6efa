package control

import (
	"cmp"
	"slices"
)

// delta leads from one snapshot to another.
type delta struct {
	state   State
	changed []Worker // in ascending order of identity
	gone    []string // likewise
}

func sortWorkers(workers []Worker) {
	slices.SortFunc(workers, func(a, b Worker) int { return cmp.Compare(a.Identity, b.Identity) })
}

// diff is what leads from one snapshot to another; from nil it is the whole.
func diff(from, to *Snapshot) delta {
	if from == nil {
		return delta{state: to.State, changed: to.Workers}
	}
	d := delta{state: to.State}
	old := from.Workers
	for i := range to.Workers {
		w := &to.Workers[i]
		for len(old) > 0 && old[0].Identity < w.Identity {
			d.gone = append(d.gone, old[0].Identity)
			old = old[1:]
		}
		same := false
		if len(old) > 0 && old[0].Identity == w.Identity {
			same = old[0] == *w
			old = old[1:]
		}
		if !same {
			d.changed = append(d.changed, *w)
		}
	}
	for i := range old {
		d.gone = append(d.gone, old[i].Identity)
	}
	return d
}

// apply is the way from a snapshot, which stays as it is. Workers that are gone
// and were not there are no error.
func (d *delta) apply(from *Snapshot) *Snapshot {
	to := &Snapshot{State: d.state}
	if from == nil {
		to.Workers = slices.Clip(d.changed)
		return to
	}
	to.Workers = make([]Worker, 0, len(from.Workers)+len(d.changed))
	changed, gone := d.changed, d.gone
	for i := range from.Workers {
		w := &from.Workers[i]
		for len(changed) > 0 && changed[0].Identity < w.Identity {
			to.Workers = append(to.Workers, changed[0])
			changed = changed[1:]
		}
		for len(gone) > 0 && gone[0] < w.Identity {
			gone = gone[1:]
		}
		switch {
		case len(changed) > 0 && changed[0].Identity == w.Identity:
			to.Workers = append(to.Workers, changed[0])
			changed = changed[1:]
		case len(gone) > 0 && gone[0] == w.Identity:
		default:
			to.Workers = append(to.Workers, *w)
		}
	}
	to.Workers = append(to.Workers, changed...)
	return to
}
