package core

// pool is the list of waiting jobs, oldest first. Every operation is constant
// time; a job is in at most one pool.
type pool struct {
	head, tail *Job
	length     int
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
}

// pushFront puts a returned job before all others (rule 47).
func (l *pool) pushFront(j *Job) {
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
