package core

// pool is the list of waiting jobs, oldest first. Every operation is constant
// time; a job is in at most one pool.
type pool struct {
	head, tail *Job
	length     int
	// covered counts jobs whose payload is there, or asked for; rest is the
	// first of those whose payload is not, and every job before it is covered
	// (B11).
	covered int
	rest    *Job
}

func (l *pool) pushBack(j *Job) {
	j.prev, j.next = l.tail, nil
	if l.tail == nil {
		l.head = j
	} else {
		l.tail.next = j
	}
	l.tail = j
	l.length++
	switch {
	case l.rest != nil:
	case j.Payload != nil:
		j.covered = true
		l.covered++
	default:
		l.rest = j
	}
}

// cover counts the first job that is not covered as covered, and returns it.
func (l *pool) cover() *Job {
	j := l.rest
	j.covered = true
	l.covered++
	l.rest = j.next
	return j
}

// pushFront puts a returned job before all others (rule 47). Its payload is
// there, or was asked for.
func (l *pool) pushFront(j *Job) {
	j.covered = true
	l.covered++
	j.prev, j.next = nil, l.head
	if l.head == nil {
		l.tail = j
	} else {
		l.head.prev = j
	}
	l.head = j
	l.length++
}

func (l *pool) popFront() *Job {
	j := l.head
	l.remove(j)
	return j
}

func (l *pool) remove(j *Job) {
	if j.prev == nil {
		l.head = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.tail = j.prev
	} else {
		j.next.prev = j.prev
	}
	if l.rest == j {
		l.rest = j.next
	}
	if j.covered {
		j.covered = false
		l.covered--
	}
	j.prev, j.next = nil, nil
	l.length--
}

// delayed is a heap of jobs that wait for their backoff, soonest first.
type delayed []*Job

func (h delayed) Len() int           { return len(h) }
func (h delayed) Less(i, j int) bool { return h[i].trouble.due < h[j].trouble.due }
func (h delayed) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].trouble.heapIndex, h[j].trouble.heapIndex = i, j
}

// Push and Pop implement heap.Interface.
func (h *delayed) Push(x any) {
	j := x.(*Job)
	j.trouble.heapIndex = len(*h)
	*h = append(*h, j)
}

func (h *delayed) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}
