package pebble_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// TestStores: a store is found by its directory, and by no other; it is opened
// when it is first used, and closed with the last of its queues.
func TestStores(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "in")
	one, twin, other := pebble.New(dir, small...), pebble.New(dir, small...), pebble.New(dir+"2", small...)
	if one.ID() != twin.ID() || one.ID() == other.ID() {
		t.Errorf("IDs %s, %s, and %s of another directory", one.ID(), twin.ID(), other.ID())
	}
	data, err := one.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var made pebble.Queue
	if err := made.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a directory before it is used: %v", err)
	}
	epoch := loadNew(t, one)
	if _, err := twin.Commit(within(t), epoch, newLedger(1, 1).batch()); err != nil {
		t.Error(err)
	}
	closeQueue(t, one)
	refused(t, one, epoch, pebble.ErrClosed)
	if state, _, err := made.Load(within(t)); err != nil || state.Cursor() == 0 {
		t.Errorf("cursor %d: %v", state.Cursor(), err)
	}
	closeQueue(t, &made)
	closeQueue(t, twin)
	closeQueue(t, other) // which was never used
	again := pebble.New(dir, small...)
	defer closeQueue(t, again)
	if state, _, err := again.Load(within(t)); err != nil || state.Cursor() == 0 {
		t.Errorf("cursor %d: %v", state.Cursor(), err)
	}
}

// TestRefusals: a queue without a directory and bytes that are no queue are
// refused.
func TestRefusals(t *testing.T) {
	epoch, err := workpull.NewQueueEpoch(1)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, &pebble.Queue{}, epoch, pebble.ErrNoDirectory)
	if _, err := pebble.New("").MarshalBinary(); !errors.Is(err, pebble.ErrNoDirectory) {
		t.Errorf("marshal without a directory: %v", err)
	}
	q := pebble.New("somewhere")
	data, err := q.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, data[1:], []byte("somewhere"), []byte("workpull pebble queue 1\n")} {
		if err := q.UnmarshalBinary(bad); !errors.Is(err, pebble.ErrNotPebble) {
			t.Errorf("unmarshal %q: %v", bad, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := pebble.New(filepath.Join(file, "store"))
	if _, _, err := in.Load(within(t)); err == nil {
		t.Error("a store in a file is loaded")
	}
	closeQueue(t, in)
}

// lockVariable holds the directory that a child of TestASecondProcess opens.
const lockVariable = "PEBBLE_TEST_DIRECTORY"

// TestASecondProcess: another process is refused while the store is open, and so
// is another path to it; when it is closed they are not.
func TestASecondProcess(t *testing.T) {
	if dir, child := os.LookupEnv(lockVariable); child {
		q := pebble.New(dir, small...)
		_, _, err := q.Load(within(t))
		fmt.Println("locked:", errors.Is(err, pebble.ErrLocked), err)
		closeQueue(t, q)
		return
	}
	dir := filepath.Join(t.TempDir(), "store")
	child := func() string {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestASecondProcess$")
		command.Env = append(os.Environ(), lockVariable+"="+dir)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	q := pebble.New(dir, small...)
	loadNew(t, q)
	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	linked := pebble.New(link, small...)
	if _, _, err := linked.Load(within(t)); !errors.Is(err, pebble.ErrLocked) {
		t.Errorf("load by another path: %v", err)
	}
	closeQueue(t, linked)
	if out := child(); out[:len("locked: true")] != "locked: true" {
		t.Errorf("another process: %s", out)
	}
	closeQueue(t, q)
	if out := child(); out[:len("locked: false <nil>")] != "locked: false <nil>" {
		t.Errorf("another process after the close: %s", out)
	}
}

// TestConfirmedJobsGiveTheirSpaceBack: a store is small again when its jobs are
// done, whether they were done at once or after a long backlog.
func TestConfirmedJobsGiveTheirSpaceBack(t *testing.T) {
	const jobs, batch, size = 40_000, 500, 200
	for name, backlog := range map[string]int{"at once": 0, "after a backlog": jobs} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			q := pebble.New(dir, small...)
			defer closeQueue(t, q)
			epoch := loadNew(t, q)
			var waiting []string
			confirm := func(n int) {
				if _, err := q.Commit(within(t), epoch, workpull.NewWorkBatch(nil, nil, waiting[:n])); err != nil {
					t.Fatal(err)
				}
				waiting = waiting[n:]
			}
			largest := int64(0)
			for n := 0; n < jobs; n += batch {
				var stores []workpull.StoreRequest
				var ids []string
				for i := range batch {
					id := fmt.Sprintf("%x-%d", (n+i)*7919%jobs, n+i) // not in order
					request, err := workpull.NewStoreRequest(id, 0, payloadFor(id, size))
					if err != nil {
						t.Fatal(err)
					}
					stores, ids = append(stores, request), append(ids, id)
				}
				if _, err := q.Commit(within(t), epoch, workpull.NewWorkBatch(stores, ids, nil)); err != nil {
					t.Fatal(err)
				}
				waiting = append(waiting, ids...)
				if len(waiting) > backlog {
					confirm(batch)
				}
				largest = max(largest, sizeOf(t, dir))
			}
			for len(waiting) > 0 {
				confirm(batch)
			}
			if backlog > 0 && largest < jobs*size {
				t.Errorf("a backlog of %d bytes took %d", jobs*size, largest)
			}
			for _, tag := range []byte("ipfgdc") {
				if n, err := pebble.Rows(q, tag); err != nil || n > 0 {
					t.Errorf("%d rows of %q are left: %v", n, tag, err)
				}
			}
			if n, err := pebble.Rows(q, 'b'); err != nil || n > 1 {
				t.Errorf("%d rows of marks are left: %v", n, err)
			}
			// Two logs of a memtable each, tables of tombstones, and Pebble's own.
			deadline := time.Now().Add(patience)
			for sizeOf(t, dir) > 6<<20 && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond) // it is removed in the background
			}
			if n := sizeOf(t, dir); n > 6<<20 {
				t.Errorf("%d bytes are left of %d", n, largest)
			}
		})
	}
}

// sizeOf is how much the files of a directory take.
func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil { // it may be gone meanwhile
			n += info.Size()
		}
	}
	return n
}

// TestAFullDisk: where less than the reserve is free no job is stored, and jobs
// are accepted, confirmed and loaded.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	q := pebble.New(dir, small...)
	epoch := loadNew(t, q)
	l := newLedger(1, 10)
	request, err := workpull.NewStoreRequest("a", 1, payloadFor("a", 10))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Store(within(t), epoch, request); err != nil {
		t.Fatal(err)
	}
	closeQueue(t, q)
	q = pebble.New(dir, pebble.WithReserve(1<<62))
	defer closeQueue(t, q)
	epoch = loadNew(t, q)
	if _, err := q.Commit(within(t), epoch, l.batch()); !errors.Is(err, pebble.ErrDiskFull) {
		t.Errorf("store on a full disk: %v", err)
	}
	if result, err := q.Store(within(t), epoch, request); err != nil || !result.AlreadyStored() {
		t.Errorf("store again on a full disk: %v", err)
	}
	if _, err := q.Commit(within(t), epoch, workpull.NewWorkBatch(nil, []string{"a"}, []string{"a"})); err != nil {
		t.Errorf("confirm on a full disk: %v", err)
	}
}

// TestExpiry: a completed job is known for its window and no longer, whatever
// restarts in between, and what is over is removed in bounded steps (B9).
func TestExpiry(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_700_000_000, 0)
	clock := pebble.WithClock(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	dir := t.TempDir()
	options := append([]pebble.Option{clock}, small...)
	q := pebble.New(dir, options...)
	epoch := loadNew(t, q)
	if err := q.KeepCompleted(within(t), epoch, time.Hour); err != nil {
		t.Fatal(err)
	}
	const jobs = 3000
	run := func(prefix string, n int) {
		t.Helper()
		var stores []workpull.StoreRequest
		var ids []string
		for i := range n {
			id := fmt.Sprintf("%s %d", prefix, i)
			request, err := workpull.NewStoreRequest(id, 0, payloadFor(id, 1))
			if err != nil {
				t.Fatal(err)
			}
			stores, ids = append(stores, request), append(ids, id)
		}
		if _, err := q.Commit(within(t), epoch, workpull.NewWorkBatch(stores, ids, ids)); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() int {
		t.Helper()
		done, err := pebble.Rows(q, 'd')
		expiry, err2 := pebble.Rows(q, 'c')
		if err := errors.Join(err, err2); err != nil || done != expiry {
			t.Fatalf("%d completed jobs, %d to expire: %v", done, expiry, err)
		}
		return done
	}
	known := func(id string) bool {
		t.Helper()
		_, ok, err := q.Completed(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	run("old", jobs)
	pass(30 * time.Minute)
	run("young", 1)
	closeQueue(t, q)
	q = pebble.New(dir, options...)
	defer func() { closeQueue(t, q) }()
	epoch = loadNew(t, q)
	if !known("old 7") || !known("young 0") {
		t.Error("a completed job is not known after a restart")
	}
	pass(30 * time.Minute)
	if known("old 7") || !known("young 0") {
		t.Error("the window is not an hour")
	}
	if n := rows(); n != jobs+1 {
		t.Errorf("%d rows before any commit, wanted %d", n, jobs+1)
	}
	run("old", 1) // is stored anew
	if n := rows(); n < jobs-300 || n > jobs-200 {
		t.Errorf("%d rows after one commit, wanted some 256 less than %d", n, jobs)
	}
	for i := range 20 {
		run(fmt.Sprint("more ", i), 1)
	}
	if n := rows(); n != 22 || !known("old 0") {
		t.Errorf("%d rows in the end, wanted those of the window: 22", n)
	}
	if err := q.KeepCompleted(within(t), epoch, 0); err != nil {
		t.Fatal(err)
	}
	epoch = loadNew(t, q)
	if known("young 0") {
		t.Error("a job is known without a window")
	}
	run("last", 1)
	if n := rows(); n != 0 {
		t.Errorf("%d rows without a window", n)
	}
}
