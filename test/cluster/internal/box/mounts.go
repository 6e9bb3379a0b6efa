package box

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// setMounts makes the box's view of the file system. All of it happens in the box's own mount namespace.
func setMounts(spec Spec) error {
	// Nothing propagates back to the machine; below, the box's own mounts reach the containers.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("part the box's mounts from the machine's: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("let the box's mounts reach its containers: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the box's /proc: %w", err)
	}
	keep, err := os.Open(spec.Keep)
	if err != nil {
		return fmt.Errorf("open %s: %w", spec.Keep, err)
	}
	defer keep.Close()
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount the box's /run: %w", err)
	}
	for _, dir := range []string{"/run/lock", filepath.Join(spec.Dir, "tmp")} {
		if err := os.MkdirAll(dir, 0o1777); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if err := makePlaces(spec.Private); err != nil {
		return err
	}
	if err := keepVisible(keep, spec.Keep); err != nil {
		return err
	}
	for _, target := range spec.Private {
		source := filepath.Join(spec.Dir, "fs", target)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("make the box's %s: %w", target, err)
		}
		if err := bind(source, target); err != nil {
			return err
		}
		if err := unix.Mount("", target, "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
			return fmt.Errorf("share the box's %s with its containers: %w", target, err)
		}
	}
	return setFiles(spec)
}

// makePlaces makes the missing among the folders to be mounted over, without making them on the machine: an overlay
// that forgets what is written goes over the nearest folder that exists.
func makePlaces(targets []string) error {
	var parents []string
	for _, t := range targets {
		if _, err := os.Stat(t); err == nil {
			continue
		}
		parent := filepath.Dir(t)
		for {
			if _, err := os.Stat(parent); err == nil {
				break
			}
			parent = filepath.Dir(parent)
		}
		if !slices.Contains(parents, parent) {
			parents = append(parents, parent)
		}
	}
	for i, parent := range parents {
		if parent == "/" {
			return errors.New("a private folder has no parent on this machine but /")
		}
		scratch := fmt.Sprintf("/run/places/%d", i)
		upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return fmt.Errorf("make room for places below %s: %w", parent, err)
		}
		options := "lowerdir=" + parent + ",upperdir=" + upper + ",workdir=" + work
		if err := unix.Mount("overlay", parent, "overlay", 0, options); err != nil {
			return fmt.Errorf("lay a folder over %s: %w", parent, err)
		}
	}
	for _, t := range targets {
		if err := os.MkdirAll(t, 0o755); err != nil {
			return fmt.Errorf("make a place for the box's %s: %w", t, err)
		}
	}
	return nil
}

// keepVisible mounts the folder back at its path if something was mounted above it meanwhile.
func keepVisible(dir *os.File, path string) error {
	was, err := dir.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	is, err := os.Stat(path)
	if err == nil && os.SameFile(was, is) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make %s again: %w", path, err)
	}
	return bind(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), path)
}

const bootID = "/proc/sys/kernel/random/boot_id"

// BootIDFile is where a box, by its folder, keeps the id of its present boot, which its kubelet reports.
func BootIDFile(boxDir string) string { return ownFile(boxDir, bootID) }

func ownFile(boxDir, path string) string { return filepath.Join(boxDir, "files", path) }

// setFiles lays the box's own values over single files of the machine.
func setFiles(spec Spec) error {
	files := map[string]string{
		// A box that crashed and was started again is to kubelet a machine that booted again.
		bootID:            uuid(true) + "\n",
		"/etc/machine-id": uuid(false) + "\n",
	}
	for key, value := range spec.Sysctls {
		files[filepath.Join("/proc/sys", key)] = value + "\n"
	}
	for target, content := range files {
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		source := ownFile(spec.Dir, target)
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return fmt.Errorf("make the folder of the box's %s: %w", target, err)
		}
		if target == "/etc/machine-id" {
			if old, err := os.ReadFile(source); err == nil {
				content = string(old) // a machine keeps its id
			}
		}
		if err := os.WriteFile(source, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the box's %s: %w", target, err)
		}
		if err := bind(source, target); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s over %s: %w", source, target, err)
	}
	return nil
}

func uuid(dashes bool) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	if !dashes {
		return fmt.Sprintf("%x", b)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
