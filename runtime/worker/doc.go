// Package worker is the Go SDK of workers: a program that gives Run a handler
// is a worker of a pool.
//
//	func main() {
//		worker.Main(func(ctx context.Context, job *worker.Job) error {
//			return resize(ctx, job.Body)
//		})
//	}
//
// The operator sets everything else in the pod's environment. Outside of
// Kubernetes WORKPULL_PRODUCER and WORKPULL_PRODUCER_HOST do.
//
// A job is handed to one worker at a time. It is done when the handler returns
// nil; an error or a panic rejects it, and it is given out again after a
// pause. A worker that dies takes nothing along: its job is given to another.
// So a handler may meet a job a second time, and has its id and attempt to
// tell by.
package worker
