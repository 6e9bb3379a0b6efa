package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/workpull/operator/test/cluster/internal/build"
	"github.com/workpull/operator/test/cluster/internal/config"
	"github.com/workpull/operator/test/cluster/internal/image"
)

// ownImages writes the archives that every node starts with, and returns their paths.
func (c *Cluster) ownImages(ctx context.Context, b build.Builder, binaries map[string]string) ([]string, error) {
	start := c.now()
	// Two clusters may come up at once.
	unlock, err := c.cache.Lock("images", func() {})
	if err != nil {
		return nil, err
	}
	defer unlock()
	pause := filepath.Join(c.cache.Images(), "bin", "pause")
	if err := b.Own(ctx, "./images/pause", pause); err != nil {
		return nil, err
	}
	dns := binaries["coredns"]
	version := filepath.Base(filepath.Dir(dns))
	archives := []struct {
		image.Options
		file  string
		fixed bool // the file's name says what is in it
	}{
		{image.Options{Ref: config.PauseImage, Binaries: []string{pause}}, "pause.tar", false},
		{image.Options{Ref: config.CoreDNSImage, Binaries: []string{dns}}, version + ".tar", true},
	}
	var paths []string
	for _, a := range archives {
		path := filepath.Join(c.cache.Images(), a.file)
		paths = append(paths, path)
		if _, err := os.Stat(path); err == nil && a.fixed {
			continue
		}
		if err := image.Write(a.Options, path); err != nil {
			return nil, err
		}
	}
	c.timed("images of the cluster's own", start)
	return paths, nil
}

// LoadImages imports image archives on every running node, all nodes at once.
func (c *Cluster) LoadImages(ctx context.Context, archives []string) error {
	if err := needRoot(); err != nil {
		return err
	}
	s, err := c.loadSettings()
	if err != nil {
		return err
	}
	start := c.now()
	results := make(chan error)
	var nodes sync.WaitGroup
	loaded := 0
	for n := 1; n <= s.Nodes; n++ {
		name := config.NodeName(n)
		if _, err := c.boxPid(name); err != nil {
			c.say("%s does not run and gets no image", name)
			continue
		}
		loaded++
		nodes.Go(func() { results <- c.loadOn(ctx, name, archives) })
	}
	if loaded == 0 {
		return fmt.Errorf("no node of cluster %s runs: %w", c.name, ErrNotUp)
	}
	go func() {
		nodes.Wait()
		close(results)
	}()
	var errs []error
	for err := range results {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.timed(fmt.Sprintf("%d image archives loaded on %d nodes", len(archives), loaded), start)
	return nil
}

func (c *Cluster) loadOn(ctx context.Context, name string, archives []string) error {
	for _, archive := range archives {
		if err := c.importOn(ctx, name, archive); err != nil {
			return fmt.Errorf("load %s on %s: %w", archive, name, err)
		}
	}
	return nil
}

func (c *Cluster) importOn(ctx context.Context, name, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	// Through standard input: the box may not see the path.
	cmd, err := c.inBox(ctx, name, append(config.ImportCommand(), "-")...)
	if err != nil {
		return err
	}
	cmd.Stdin = f
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr images import: %w: %s", err, output)
	}
	return nil
}
