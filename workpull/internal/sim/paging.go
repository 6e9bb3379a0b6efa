package sim

import "github.com/workpull/operator/workpull/internal/core"

// fetch asks the queue for payloads (B11).
func (w *World) fetch(e *core.Effect) {
	o := e.Operation
	w.judgeEpoch(o)
	if len(o.Fetches) == 0 || !w.opt.Pages {
		w.fail("the queue is asked what there is to ask", "operation %d fetches %d", o.Number, len(o.Fetches))
	}
	for _, id := range o.Fetches {
		if j := &w.jobs[jobNumber(id)]; j.state != jobHeld && !j.completing {
			w.fail("the queue is asked what there is to ask", "the payload of %s is fetched in state %d", id, j.state)
		}
	}
	w.launch(operation{session: e.Session, QueueOperation: o, fetch: true},
		OperationNotDone, OperationAnswerLost, Fence, FenceUnseen, OperationConflict, SlowQueue, RepeatedOutcome, AncientOutcome)
}

// leastSize is the size of the smallest payload, in bytes.
const leastSize = len("job") + len("j0")

// judgePayloads: of the jobs that wait two pages are held, of those that wait for
// their backoff two more, beside what came back from workers and what came with
// the load.
func (w *World) judgePayloads() {
	if !w.opt.Pages {
		return
	}
	page := max(1, w.opt.Page/leastSize)
	most := 4*page + 6 + 2*w.opt.Workers*w.opt.Window
	if held := w.core.WaitingPayloads(); held > most {
		w.fail("memory is bounded", "the payloads of %d waiting jobs are held, wanted at most %d", held, most)
	}
}
