package layout

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"workpull", "a", "e2e-1", strings.Repeat("a", 30)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "..", "a/b", "Upper", "-a", "a-", "a b", strings.Repeat("a", 31)} {
		if err := CheckName(bad); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}

func TestDefaultCache(t *testing.T) {
	t.Setenv("WORKPULL_CACHE", "/x/y")
	if c, err := DefaultCache(); err != nil || c.Root != "/x/y" || c.Cluster("n") != "/x/y/clusters/n" || c.Bin("etcd", "v1") != "/x/y/bin/etcd-v1" {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("WORKPULL_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	if c, err := DefaultCache(); err != nil || c.Root != "/xdg/workpull" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	c := Cache{Root: t.TempDir()}
	unlock, err := c.Lock("x", func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, got := make(chan struct{}), make(chan error, 1)
	go func() {
		again, err := c.Lock("x", func() { close(waiting) })
		if err == nil {
			again()
		}
		got <- err
	}()
	<-waiting
	select {
	case <-got:
		t.Fatal("two hold the lock")
	default:
	}
	unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.Root, "locks")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The file of a lock goes with each holder, and still no two ever hold it.
func TestLockIsHeldByOneAtATime(t *testing.T) {
	c := Cache{Root: t.TempDir()}
	var all sync.WaitGroup
	var holders, most atomic.Int32
	for range 8 {
		all.Go(func() {
			for range 50 {
				unlock, err := c.Lock("x", func() {})
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), holders.Add(1)))
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held it at once", most.Load())
	}
}

func TestSourceIsFoundUpwards(t *testing.T) {
	here, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Source(""); err != nil || got != here {
		t.Errorf("found %s, %v, want %s", got, err, here)
	}
	if got, err := Source(here); err != nil || got != here {
		t.Errorf("given %s: %s, %v", here, got, err)
	}
	if _, err := Source(t.TempDir()); err == nil {
		t.Error("an empty folder is taken for the sources")
	}
}
