package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpull/operator/runtime/producer"
)

const (
	// senders and readers are how many jobs and results are on their way at
	// once.
	senders = 16
	readers = 16
	// tableInterval is the time between two looks at the cluster.
	tableInterval = 300 * time.Millisecond
)

// show sends the jobs, kills workers, and checks the results.
func (w *world) show(ctx context.Context, pictures []picture) error {
	jobs := makeJobs(pictures, w.jobs)
	before, err := w.status(ctx)
	if err != nil {
		return err
	}
	w.out.say("send %d jobs made from %d pictures of Go's test data", len(jobs), len(pictures))
	begun := time.Now()
	faults, err := w.work(ctx, jobs, before.Confirmed)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	return w.judge(ctx, jobs, faults, took)
}

// work returns when every job is confirmed.
func (w *world) work(ctx context.Context, jobs []job, before uint64) ([]*fault, error) {
	var sent atomic.Int64
	var confirmed atomic.Uint64
	var faults []*fault
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.send(ctx, jobs, &sent) })
	group.Go(func() error { return w.watch(ctx, before+uint64(len(jobs)), &sent, &confirmed) })
	group.Go(func() (err error) {
		faults, err = w.disturb(ctx, func() float64 { return float64(confirmed.Load()-before) / float64(len(jobs)) })
		return err
	})
	return faults, group.Wait()
}

func (w *world) send(ctx context.Context, jobs []job, sent *atomic.Int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	for i := range jobs {
		group.Go(func() error {
			if err := w.post(ctx, &jobs[i]); err != nil {
				return err
			}
			sent.Add(1)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	w.out.say("all %d jobs are accepted", len(jobs))
	return nil
}

// watch draws the table until as many jobs are confirmed.
func (w *world) watch(ctx context.Context, until uint64, sent *atomic.Int64, confirmed *atomic.Uint64) error {
	ticker := time.NewTicker(tableInterval)
	defer ticker.Stop()
	for {
		status, err := w.status(ctx)
		if err == nil {
			confirmed.Store(status.Confirmed)
			if status.Lost > 0 {
				return fmt.Errorf("the producer lost %d jobs", status.Lost)
			}
			w.out.table(w.rows(ctx, &status, sent.Load()))
			if status.Confirmed >= until {
				w.out.keep()
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d jobs to be confirmed: %w", until, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

// rows are the table: the jobs, and what each pod does.
func (w *world) rows(ctx context.Context, status *producer.Status, sent int64) []string {
	rows := []string{
		fmt.Sprintf("jobs: %d sent, %d waiting, %d at workers (%d running), %d confirmed, %d requeued",
			sent, status.Waiting+status.Delayed, status.InFlight, status.Running, status.Confirmed, status.Requeued),
	}
	running := map[string][]string{}
	for _, worker := range status.Workers {
		if worker.Running != "" {
			running[worker.Pod] = append(running[worker.Pod], fmt.Sprintf("%s (attempt %d)", worker.Running, worker.Attempt))
		}
	}
	pods, err := w.core.CoreV1().Pods(demoNamespace).List(ctx, metav1.ListOptions{LabelSelector: "workpull.dev/pool=" + poolName})
	if err != nil {
		return append(rows, "pods: "+err.Error())
	}
	sort.Slice(pods.Items, func(i, j int) bool { return pods.Items[i].Name < pods.Items[j].Name })
	for i := range pods.Items {
		pod := &pods.Items[i]
		doing := strings.Join(running[pod.Name], ", ")
		if doing == "" {
			doing = "-"
		}
		rows = append(rows, fmt.Sprintf("%-16s %-12s %-8s %s", pod.Name, condition(pod), pod.Spec.NodeName, doing))
	}
	return rows
}

func condition(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "terminating"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return "ready"
		}
	}
	return strings.ToLower(string(pod.Status.Phase))
}

// disturb kills a busy worker when an eighth of the jobs is done, and deletes
// another one's pod when three eighths are.
func (w *world) disturb(ctx context.Context, progress func() float64) ([]*fault, error) {
	var faults []*fault
	spared := ""
	for _, act := range []struct {
		at float64
		do func(context.Context, string) (*fault, error)
	}{{1. / 8, w.killProcess}, {3. / 8, w.deleteWorker}} {
		err := w.await(ctx, "some jobs to be done", func(context.Context) (string, error) {
			if progress() < act.at {
				return "too few are", nil
			}
			return "", nil
		})
		if err != nil {
			return nil, err
		}
		f, err := act.do(ctx, spared)
		if err != nil {
			return nil, err
		}
		if err := w.follow(ctx, f); err != nil {
			return nil, err
		}
		w.out.say("job %s %s %.2f s later", f.job, f.how, f.resumed.Seconds())
		faults, spared = append(faults, f), f.pod
	}
	return faults, nil
}

// judge checks every job and every result, and sums up.
func (w *world) judge(ctx context.Context, jobs []job, faults []*fault, took time.Duration) error {
	done := w.out.step(fmt.Sprintf("check %d jobs and results", len(jobs)))
	wrong := make([]error, len(jobs))
	group, checking := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i := range jobs {
		group.Go(func() error {
			wrong[i] = w.verify(checking, &jobs[i])
			return checking.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	done()
	status, err := w.status(ctx)
	if err != nil {
		return err
	}
	twice, err := w.countTwice(ctx, jobs)
	if err != nil {
		return err
	}
	bad := 0
	for _, err := range wrong {
		if err != nil {
			bad++
			w.out.say("WRONG: %v", err)
		}
	}
	w.out.say("summary")
	w.out.say("  %d jobs in %.1f s, %.0f a second; %d are confirmed with the right result, %d are not", len(jobs), took.Seconds(), float64(len(jobs))/took.Seconds(), len(jobs)-bad, bad)
	for _, f := range faults {
		w.out.say("  after %s %s its job %s %.2f s later", f.what, f.pod, f.how, f.resumed.Seconds())
	}
	w.out.say("  %d jobs came back from workers that ended; %d results came twice, from jobs that had run before their worker died", status.Requeued, twice)
	if bad > 0 {
		return fmt.Errorf("%d of %d jobs are not confirmed, or their results are wrong", bad, len(jobs))
	}
	return nil
}

// verify checks one job: that it is confirmed, and that its result is right.
func (w *world) verify(ctx context.Context, j *job) error {
	state, err := w.state(ctx, j.id)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.id, err)
	}
	if state.State != producer.Done {
		return fmt.Errorf("job %s is %s, wanted %s", j.id, state.State, producer.Done)
	}
	body, err := w.result(ctx, j.id)
	if err != nil {
		return err
	}
	return j.check(body)
}

// countTwice counts results of these jobs that came more than once.
func (w *world) countTwice(ctx context.Context, jobs []job) (int, error) {
	results, err := w.results(ctx)
	if err != nil {
		return 0, err
	}
	ours := make(map[string]bool, len(jobs))
	for i := range jobs {
		ours[jobs[i].id] = true
	}
	twice := 0
	for _, r := range results {
		if ours[r.ID] && r.Count > 1 {
			twice++
		}
	}
	return twice, nil
}
