package core

import "time"

// A MessageID that is done is remembered for the deduplication window (B9). A
// queue that can do it does; otherwise the controller does, for as long as it
// lives.

// remembered is a job that is done.
type remembered struct {
	job *Job
	at  time.Duration
}

// memory is what the controller remembers, the oldest first.
type memory struct {
	jobs  map[string]*Job
	order []remembered
}

// remember keeps a job that is done for the window.
func (p *Producer) remember(now time.Duration, j *Job) {
	if p.cfg.Window == 0 || p.cfg.Remembers {
		return
	}
	j.state, j.Payload, j.trouble = jobFinished, nil, nil
	p.memory.jobs[j.ID] = j
	p.memory.order = append(p.memory.order, remembered{j, now})
}

// recollect is the job of that MessageID that was done within the window.
func (p *Producer) recollect(now time.Duration, id string) (*Job, bool) {
	p.forgetDone(now)
	j, ok := p.memory.jobs[id]
	return j, ok
}

// forgetDone forgets what was done before the window.
func (p *Producer) forgetDone(now time.Duration) {
	m := &p.memory
	n := 0
	for n < len(m.order) && now-m.order[n].at >= p.cfg.Window {
		if j := m.order[n].job; m.jobs[j.ID] == j {
			delete(m.jobs, j.ID)
		}
		n++
	}
	if n > 0 {
		clear(m.order[:n])
		m.order = m.order[n:]
	}
}
