// Package layout names the places where the test cluster keeps what it builds and what it runs on.
package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Cache is the folder of everything that is built or run: binaries and images, which stay, and the state of running
// clusters, which goes with them.
type Cache struct{ Root string }

// DefaultCache is $WORKPULL_CACHE, else workpull in the user's cache folder.
func DefaultCache() (Cache, error) {
	if dir := os.Getenv("WORKPULL_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return Cache{}, fmt.Errorf("resolve WORKPULL_CACHE %q: %w", dir, err)
		}
		return Cache{Root: abs}, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("find the cache folder (or set WORKPULL_CACHE): %w", err)
	}
	return Cache{Root: filepath.Join(dir, "workpull")}, nil
}

// Bin is the folder of one component's binaries at one version.
func (c Cache) Bin(name, version string) string {
	return filepath.Join(c.Root, "bin", name+"-"+version)
}

// Images is the folder of the image archives that the cluster itself needs.
func (c Cache) Images() string { return filepath.Join(c.Root, "images") }

// Cluster is the folder of one running cluster's state; nothing of a cluster is written elsewhere but its cgroups.
func (c Cache) Cluster(name string) string { return filepath.Join(c.Root, "clusters", name) }

// clusterName leaves room for the longest cgroup and host name made from it.
var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$`)

// CheckName refuses names that could not be part of a path, a cgroup or a host name.
func CheckName(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("cluster name %q: want 1 to 30 lower-case letters, digits and inner dashes", name)
	}
	return nil
}

// Lock takes the named lock of this cache, waiting for whoever holds it; waiting is called once if there is a wait.
// The kernel drops the lock with its process, so a killed holder never blocks the next one.
func (c Cache) Lock(name string, waiting func()) (unlock func(), err error) {
	dir := filepath.Join(c.Root, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of locks: %w", err)
	}
	path := filepath.Join(dir, name)
	for waiting := sync.OnceFunc(waiting); ; {
		f, current, err := take(path, waiting)
		if err != nil {
			return nil, fmt.Errorf("take lock %s: %w", name, err)
		}
		if current {
			// The file goes while the lock is still held; who waits for it finds that out and starts over.
			return func() {
				_ = os.Remove(path)
				_ = f.Close()
			}, nil
		}
		_ = f.Close()
	}
}

// take locks the file at path and tells whether the locked file is still the one there.
func take(path string, waiting func()) (f *os.File, current bool, err error) {
	if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		waiting()
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, false, err
	}
	held, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, false, err
	}
	there, err := os.Stat(path)
	return f, err == nil && os.SameFile(held, there), nil
}

// Source finds this module's folder, which holds modules/ and images/ to build from: the given one, else upwards from
// the working folder, else where this file was compiled.
func Source(given string) (string, error) {
	if given != "" {
		abs, err := filepath.Abs(given)
		if err != nil {
			return "", fmt.Errorf("resolve %q: %w", given, err)
		}
		if !isSource(abs) {
			return "", fmt.Errorf("%s holds no modules/kubernetes/go.mod", abs)
		}
		return abs, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "test", "cluster")} {
			if isSource(candidate) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if dir := filepath.Join(filepath.Dir(file), "..", ".."); filepath.IsAbs(file) && isSource(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("the sources of the test cluster (test/cluster) are not above %s: name them with --source", wd)
}

func isSource(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "modules", "kubernetes", "go.mod"))
	return err == nil
}
