package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Backup writes a copy of the store to a directory, which must not exist, while
// the queue is in use. It holds all that was acknowledged before the call, and
// any part of what comes meanwhile, in the order of the commits. Tables are hard
// links where the directory is on the same volume, and copies otherwise; the log
// is copied.
//
// A restore is a queue that is opened on the directory, or on a copy of it. It is
// another store from then on: what the original did since, it does not know, so
// that jobs that were done run again, and jobs that were stored are missing.
//
// Where the context ends the copy goes on, is removed again, and the error says
// so; what is left by a process that dies is no backup and can be removed.
func (q *Queue) Backup(ctx context.Context, dir string) error {
	s, err := q.use(ctx)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		_, err = read(ctx, s, func() (none, error) { return none{}, s.backup(ctx, dir) })
	}
	if err != nil {
		return fmt.Errorf("back up queue in %s to %s: %w", q.dir, dir, err)
	}
	return nil
}

// backup makes the copy under another name, so that a directory of that name is
// a whole one.
func (s *store) backup(ctx context.Context, dir string) (err error) {
	if _, err := s.disk.Stat(dir); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partial := dir + ".partial"
	if err := s.settings.fs.RemoveAll(partial); err != nil {
		return err
	}
	hit("before-backup")
	err = s.db.Checkpoint(partial)
	err = errors.Join(err, s.disk.broken(), ctx.Err())
	if err == nil {
		err = s.publish(partial, dir)
	}
	hit("after-backup")
	if err != nil {
		return errors.Join(err, s.settings.fs.RemoveAll(partial))
	}
	return nil
}

// publish renames a backup that is whole and on the disk.
func (s *store) publish(partial, dir string) error {
	if err := s.settings.fs.Rename(partial, dir); err != nil {
		return err
	}
	parent, err := s.settings.fs.OpenDir(s.settings.fs.PathDir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
