package scaling

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zone data, so that an image without any knows the zones too

	"github.com/robfig/cron/v3"
)

// Schedule sets other bounds at certain times.
//
// Start and end are cron expressions of five fields that are read on the wall
// clock of the time zone. A schedule is active when the next thing to come on
// that clock is its end. So an hour that daylight saving time skips is skipped,
// and one that comes twice counts twice; a start that falls into a skipped hour
// takes effect when the clock has passed it.
type Schedule struct {
	name       string
	zone       *time.Location
	start, end cron.Schedule
	// MinReplicas and MaxReplicas replace those of the pool, nil to leave them.
	MinReplicas, MaxReplicas *int
}

// ParseSchedule reads a schedule. An empty zone is UTC.
func ParseSchedule(name, zone, start, end string) (Schedule, error) {
	s := Schedule{name: name}
	var err error
	if s.zone, err = time.LoadLocation(zone); err != nil || zone == "Local" {
		return s, fmt.Errorf("schedule %s: timeZone %q is not in the IANA time zone database", name, zone)
	}
	if s.start, err = parseCron(start); err != nil {
		return s, fmt.Errorf("schedule %s: start: %w", name, err)
	}
	if s.end, err = parseCron(end); err != nil {
		return s, fmt.Errorf("schedule %s: end: %w", name, err)
	}
	return s, nil
}

func parseCron(expression string) (cron.Schedule, error) {
	if strings.Contains(expression, "TZ=") {
		return nil, fmt.Errorf("%q sets a time zone; use timeZone", expression)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("%q is no cron expression of five fields: %w", expression, err)
	}
	if parsed.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q never comes", expression)
	}
	return parsed, nil
}

// active tells whether the schedule is in force.
func (s Schedule) active(now time.Time) bool {
	// The wall clock as a time in UTC, where no hour is skipped.
	l := now.In(s.zone)
	wall := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
	return s.end.Next(wall).Before(s.start.Next(wall))
}

// bounds are the least and the most pods, and what set them.
type bounds struct {
	min, max     int
	minBy, maxBy Limit
}

// boundsAt applies the schedules: the largest minimum and the largest maximum
// of those that are active replace the pool's own. A maximum beats a minimum.
func (a *Autoscaling) boundsAt(now time.Time) bounds {
	b := bounds{a.MinReplicas, a.MaxReplicas, MinReplicas, MaxReplicas}
	for _, s := range a.Schedules {
		if !s.active(now) {
			continue
		}
		if s.MinReplicas != nil && (b.minBy != ScheduleMin || *s.MinReplicas > b.min) {
			b.min, b.minBy = *s.MinReplicas, ScheduleMin
		}
		if s.MaxReplicas != nil && (b.maxBy != ScheduleMax || *s.MaxReplicas > b.max) {
			b.max, b.maxBy = *s.MaxReplicas, ScheduleMax
		}
	}
	b.max = max(b.max, 0)
	if b.min > b.max {
		b.min, b.minBy = b.max, b.maxBy
	}
	return b
}
