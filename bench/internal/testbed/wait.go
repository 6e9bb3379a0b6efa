package testbed

import (
	"context"
	"time"
)

// How long a run waits for its workers, and how often it looks.
const (
	patience = time.Minute
	glance   = 2 * time.Millisecond
)

// Until waits for a condition, up to a minute.
func Until(ctx context.Context, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		switch ok, err := condition(); {
		case err != nil:
			return err
		case ok:
			return nil
		}
		if err := Pause(ctx, ticker.C); err != nil {
			return err
		}
	}
}

// Pause waits for the channel or the end of the context.
func Pause[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
