package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/workpull/operator/test/cluster/internal/box"
	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/config"
	"github.com/workpull/operator/test/cluster/internal/proc"
)

// boxNamespaces are what parts a box from the machine. The user and cgroup namespaces are the machine's: kubelet works
// below a cgroup of its own instead.
const boxNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// child is a hidden command that was started and waits for the word to go on.
type child struct {
	pid  int
	gate io.WriteCloser
}

// release gives the word. If the tool dies before, the child reads the end of its input and ends as well, so that a
// killed tool leaves nothing half-made.
func (c child) release() error {
	_, err := c.gate.Write([]byte{'.'})
	return errors.Join(err, c.gate.Close())
}

// spawn starts this program again as a hidden command with a log of its own.
func (c *Cluster) spawn(ctx context.Context, log string, via []string, flags uintptr, files []*os.File, args ...string) (child, error) {
	self, err := os.Executable()
	if err != nil {
		return child{}, fmt.Errorf("find this program: %w", err)
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return child{}, fmt.Errorf("open a log: %w", err)
	}
	defer out.Close()
	argv := append(append(via, self), args...)
	// Not CommandContext: the child outlives this tool.
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	gate, err := cmd.StdinPipe()
	if err != nil {
		return child{}, fmt.Errorf("make a pipe: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return child{}, err
	}
	if err := cmd.Start(); err != nil {
		return child{}, fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	go func() { _ = cmd.Wait() }() // reaps it, should it end before this tool does
	return child{cmd.Process.Pid, gate}, nil
}

// startSwitch starts the keeper of the LAN between the boxes, and waits until the LAN is there.
func (c *Cluster) startSwitch(ctx context.Context) error {
	log := filepath.Join(c.dir, "logs", "switch.log")
	sw, err := c.spawn(ctx, log, nil, unix.CLONE_NEWNET, nil, box.SwitchCommand, c.dir)
	if err != nil {
		return err
	}
	err = c.wait(ctx, "the switch", switchLimit, []string{log}, func(ctx context.Context) error {
		return inNetwork(ctx, sw.pid, "ip", "link", "show", "lan", "up")
	})
	return errors.Join(err, sw.release())
}

// startBox starts a box, plugs its cable into the switch and lets it go on.
func (c *Cluster) startBox(ctx context.Context, host cgroup.Host, cfg config.Cluster, name string) error {
	spec, err := c.writeBox(host, cfg, name)
	if err != nil {
		return err
	}
	sw, err := c.switchPid()
	if err != nil {
		return err
	}
	b, err := c.spawn(ctx, c.boxLog(name), nil, boxNamespaces, nil, box.InitCommand, c.dir, spec.Name)
	if err != nil {
		return err
	}
	// Made from within the switch's namespace, so that no link ever shows among the machine's own.
	port := portOf(name)
	err = errors.Join(
		inNetwork(ctx, sw, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", cfg.MAC(name), "netns", strconv.Itoa(b.pid)),
		inNetwork(ctx, sw, "ip", "link", "set", port, "master", "lan", "up"),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("plug in the cable of %s: %w", name, err), b.gate.Close())
	}
	if err := b.release(); err != nil {
		return fmt.Errorf("box %s ended at once, see %s: %w", name, c.boxLog(name), err)
	}
	return nil
}

func portOf(name string) string { return "port-" + name }

// writeBox puts in place all that a box finds when it starts.
func (c *Cluster) writeBox(host cgroup.Host, cfg config.Cluster, name string) (box.Spec, error) {
	if name == config.ControlBox {
		spec := cfg.Control()
		return spec, spec.Write(c.dir)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
	if err != nil {
		return box.Spec{}, fmt.Errorf("no box is called %q", name)
	}
	if err := host.Make(cfg.CgroupOf(name)); err != nil {
		return box.Spec{}, err
	}
	spec := cfg.Node(n)
	files, err := cfg.NodeFiles(n)
	if err != nil {
		return spec, err
	}
	for file, data := range files {
		path := filepath.Join(spec.Dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return spec, fmt.Errorf("make a folder of %s: %w", name, err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return spec, fmt.Errorf("write %s of %s: %w", file, name, err)
		}
	}
	return spec, spec.Write(c.dir)
}

// startForwarder hands the listener on the machine's loopback to a process in the network of the control plane.
func (c *Cluster) startForwarder(ctx context.Context, l *net.TCPListener) error {
	control, err := c.boxPid(config.ControlBox)
	if err != nil {
		return err
	}
	f, err := l.File()
	if err != nil {
		return fmt.Errorf("hand over the API server's port: %w", err)
	}
	defer f.Close()
	via := []string{"nsenter", "--net=" + netOf(control), "--"}
	fw, err := c.spawn(ctx, filepath.Join(c.dir, "logs", "forward.log"), via, 0, []*os.File{f}, box.ForwardCommand, c.dir, config.APIServer)
	if err != nil {
		return err
	}
	return fw.release()
}

func netOf(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// inNetwork runs a command in the network namespace of a process.
func inNetwork(ctx context.Context, pid int, args ...string) error {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + netOf(pid), "--"}, args...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Exec makes a command that runs in a node's box, in all of its namespaces: it sees the node's processes, mounts and
// network, and the machine's programs. The cluster is not locked.
func (c *Cluster) Exec(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	return c.inBox(ctx, name, args...)
}

// inBox makes a command that runs in all namespaces of a box.
func (c *Cluster) inBox(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	pid, err := c.boxPid(name)
	if err != nil {
		return nil, err
	}
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...), nil
}

// boxPid finds a living box's pid 1. A process that it is just starting has the same command line for an instant.
func (c *Cluster) boxPid(name string) (int, error) {
	found, err := proc.Find(box.InitCommand, c.dir, name)
	if err != nil {
		return 0, err
	}
	for _, p := range found {
		if proc.FirstOfNamespace(p.Pid) {
			return p.Pid, nil
		}
	}
	return 0, fmt.Errorf("%s of cluster %s does not run: %w", name, c.name, ErrNotUp)
}

func (c *Cluster) switchPid() (int, error)    { return c.onlyPid(box.SwitchCommand) }
func (c *Cluster) forwarderPid() (int, error) { return c.onlyPid(box.ForwardCommand) }

func (c *Cluster) onlyPid(command string) (int, error) {
	found, err := proc.Find(command, c.dir)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("%s of cluster %s does not run: %w", command, c.name, ErrNotUp)
	}
	return found[0].Pid, nil
}
