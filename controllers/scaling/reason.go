package scaling

import (
	"fmt"
	"strings"
	"time"
)

// reason tells the decision in a sentence.
func reason(v *view, d *Decision) string {
	var b strings.Builder
	b.WriteString(demandInWords(v, d))
	fmt.Fprintf(&b, "; %s", change(v, d))
	if why := because(v, d); why != "" {
		fmt.Fprintf(&b, ", %s", why)
	}
	b.WriteString(".")
	return b.String()
}

func demandInWords(v *view, d *Decision) string {
	n := &d.Numbers
	if d.LimitedBy == ProducerUnknown || n.Waiting == nil && n.Running == nil {
		if d.LimitedBy == ProducerNotFound {
			return "The producer does not exist or is being deleted"
		}
		return "Nothing recent is known from the producer"
	}
	jobs := orZero(n.Waiting) + orZero(n.Buffered) + orZero(n.Running)
	if jobs == 0 {
		return "No job waits or runs"
	}
	text := fmt.Sprintf("%s (%d waiting, %d buffered, %d running)", counted(int(jobs), "job"), orZero(n.Waiting), orZero(n.Buffered), orZero(n.Running))
	if v.Autoscaling == nil {
		return text
	}
	took := "of unknown length"
	if n.Measured {
		took = "of " + n.JobTime.Round(time.Millisecond).String() + " each"
	}
	if v.Autoscaling.TargetDrain > 0 {
		return fmt.Sprintf("%s %s need %.1f slots to be done in %s", text, took, n.Slots, v.Autoscaling.TargetDrain)
	}
	return fmt.Sprintf("%s need %.1f slots at %g for each", text, n.Slots, v.Autoscaling.TargetJobsPerSlot)
}

func change(v *view, d *Decision) string {
	now := counted(d.Numbers.Present, "worker")
	switch {
	case d.Create > 0:
		return fmt.Sprintf("%s, %d more to come", now, d.Create)
	case len(d.Victims) > 0 && len(d.Drain) > 0:
		return fmt.Sprintf("%s, %d to go and %d to finish first", now, len(d.Victims), len(d.Drain))
	case len(d.Victims) > 0:
		return fmt.Sprintf("%s, %d to go", now, len(d.Victims))
	case len(d.Drain) > 0:
		return fmt.Sprintf("%s, %d to finish and go", now, len(d.Drain))
	default:
		if d.Numbers.Present == 1 {
			return now + " stays"
		}
		return now + " stay"
	}
}

// because is a clause about the limit. It is long only because there are many.
func because(v *view, d *Decision) string {
	n := &d.Numbers
	switch d.LimitedBy {
	case Suspended:
		return "because the pool is suspended"
	case ProducerNotFound:
		return "because there is nothing to work for"
	case ProducerUnknown:
		return "because nobody leaves while that is so"
	case ExternalOwner:
		return fmt.Sprintf("because spec.replicas is %d", d.Desired)
	case MaxReplicas:
		return fmt.Sprintf("limited by maxReplicas %d", n.Max)
	case MinReplicas:
		return fmt.Sprintf("held up by minReplicas %d", n.Min)
	case ScheduleMax:
		return fmt.Sprintf("limited by a schedule's maxReplicas %d", n.Max)
	case ScheduleMin:
		return fmt.Sprintf("held up by a schedule's minReplicas %d", n.Min)
	case Jobs:
		return "limited by one slot for each job"
	case Busy:
		return fmt.Sprintf("since who is busy stays (%d wanted)", n.Wanted)
	case StuckPods:
		return fmt.Sprintf("limited by pods that cannot be scheduled, fail or are not ready: %d", n.Stuck)
	case NoProgress:
		return "limited because the last growth brought no more throughput"
	case ScaleUpPolicy:
		return fmt.Sprintf("limited by behavior.scaleUp on the way to %d", n.Wanted)
	case ScaleDownPolicy:
		return fmt.Sprintf("held up by behavior.scaleDown on the way to %d", n.Wanted)
	case Stabilized:
		return fmt.Sprintf("held by a stabilization window on the way to %d", n.Wanted)
	case IdleTime:
		return fmt.Sprintf("until who is too many (%d wanted) has been idle for %s", n.Wanted, v.Autoscaling.IdleTimeout)
	case RecentArrival:
		return "kept because a job came a moment ago"
	case Unlimited:
	}
	return ""
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
