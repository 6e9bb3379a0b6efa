package box

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/workpull/operator/test/cluster/internal/debian"
)

// Main is the program's life as one of the three hidden commands, args being what follows the program's name. It
// reports whether args were such a command at all.
func Main(args []string) (hidden bool, err error) {
	if len(args) < 2 {
		return false, nil
	}
	command, dir := args[0], args[1]
	switch {
	case command == InitCommand && len(args) == 3:
		return true, runBox(dir, args[2])
	case command == SwitchCommand && len(args) == 2:
		return true, runSwitch()
	case command == ForwardCommand && len(args) == 3:
		return true, forward(args[2])
	}
	return false, nil
}

// awaitGo waits for the word that the box's cable is plugged in. If the tool that started this process dies before
// that, so does the process.
func awaitGo() error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the tool that started this process is gone: %w", err)
	}
	return nil
}

func runBox(dir, name string) error {
	// Pid 1 stays when someone in the box signals it, as any init does.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	spec, err := readSpec(dir, name)
	if err != nil {
		return err
	}
	if err := awaitGo(); err != nil {
		return err
	}
	if err := os.Setenv("PATH", strings.Join(debian.ProgramFolders, ":")); err != nil {
		return fmt.Errorf("set PATH: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := setMounts(spec); err != nil {
		return err
	}
	if err := setNetwork(spec); err != nil {
		return err
	}
	log.Printf("box %s is set up", spec.Name)
	children := newChildren()
	for _, s := range spec.Steps {
		awaitAll(s)
		if s.Once {
			for runStep(children, spec, s) != nil {
				pause()
			}
			continue
		}
		go func() {
			for {
				_ = runStep(children, spec, s)
				pause()
			}
		}()
	}
	log.Printf("box %s has started everything", spec.Name)
	select {}
}

// pause keeps a process that ends at once from being started in a tight loop.
func pause() { time.Sleep(time.Second) }

func runStep(children *children, spec Spec, s Step) error {
	out, err := os.OpenFile(filepath.Join(spec.Logs, spec.Name+"-"+s.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Printf("%s: %v", s.Name, err)
		return err
	}
	defer out.Close()
	env := append(os.Environ(), "HOME=/root", "TMPDIR="+filepath.Join(spec.Dir, "tmp"))
	status, err := children.run(s.Args, env, out)
	switch {
	case err != nil:
		log.Printf("%s: start %s: %v", s.Name, s.Args[0], err)
		return err
	case s.Once && status.ExitStatus() == 0:
		return nil
	}
	log.Printf("%s ended: exit status %d, signal %d", s.Name, status.ExitStatus(), status.Signal())
	return errors.New("ended")
}

// awaitAll returns when everything that the step comes after answers. It says what it waits for only when that is
// long in coming; the tool outside has the deadline.
func awaitAll(s Step) {
	for _, a := range s.After {
		start, said := time.Now(), false
		for {
			err := answers(a)
			if err == nil {
				break
			}
			if !said && time.Since(start) > 10*time.Second {
				log.Printf("%s waits for %s: %v", s.Name, a, err)
				said = true
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func answers(what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if path, ok := strings.CutPrefix(what, "unix:"); ok {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return c.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, what, nil)
	if err != nil {
		return err
	}
	// Whether it answers is all that is asked; nothing is told or believed.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

func setNetwork(spec Spec) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the box forward packets: %w", err)
	}
	commands := []string{
		"link set lo up",
		"addr add " + spec.Address + " dev eth0",
		"link set eth0 up",
	}
	for _, r := range spec.Routes {
		commands = append(commands, "route add "+r.To+" via "+r.Via)
	}
	// The default route only makes Service addresses routable, so that kube-proxy's output rules see them. Nothing is
	// behind it.
	address, _, _ := strings.Cut(spec.Address, "/")
	commands = append(commands, "route add default dev eth0 src "+address)
	return ip(commands...)
}

// ip runs commands of iproute2 in this process's network namespace.
func ip(commands ...string) error {
	for _, c := range commands {
		if output, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}

// runSwitch holds a network namespace with one bridge. It is not in a node's box: br_netfilter would run that node's
// connection tracking over bridged packets a second time and drop the traffic of Services.
func runSwitch() error {
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	if err := ip("link add lan type bridge", "link set lan up", "link set lo up"); err != nil {
		return err
	}
	if err := awaitGo(); err != nil {
		return err
	}
	// Not an empty select: the runtime takes a program in which nothing can happen for deadlocked.
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	<-end
	return nil
}

// forward accepts on descriptor 3, a listener of the machine's own loopback, and dials the target from the network
// namespace it was started in. So nothing has to be routed between the two.
func forward(target string) error {
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	if err := awaitGo(); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go func() {
			defer conn.Close()
			to, err := net.DialTimeout("tcp", target, 10*time.Second)
			if err != nil {
				log.Printf("dial %s: %v", target, err)
				return
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, conn)
				_ = to.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(conn, to)
		}()
	}
}

// children starts processes and reaps: its own and, being pid 1's, all orphans of the box.
type children struct {
	start chan started
}

type started struct {
	args, env []string
	out       *os.File
	ended     chan<- ended
}

type ended struct {
	status syscall.WaitStatus
	err    error
}

// newChildren starts the one goroutine that forks and reaps, so that no child can be reaped before it is known.
func newChildren() *children {
	c := &children{start: make(chan started)}
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, unix.SIGCHLD)
	go func() {
		waiting := map[int]chan<- ended{}
		for {
			select {
			case s := <-c.start:
				pid, err := fork(s)
				if err != nil {
					s.ended <- ended{err: err}
					continue
				}
				waiting[pid] = s.ended
			case <-chld:
			}
			for {
				var status syscall.WaitStatus
				pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
				if errors.Is(err, syscall.EINTR) {
					continue
				}
				if err != nil || pid <= 0 {
					break
				}
				if w := waiting[pid]; w != nil {
					w <- ended{status: status}
					delete(waiting, pid)
				}
			}
		}
	}()
	return c
}

func fork(s started) (int, error) {
	path, err := exec.LookPath(s.args[0])
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return syscall.ForkExec(path, s.args, &syscall.ProcAttr{
		Env:   s.env,
		Files: []uintptr{null.Fd(), s.out.Fd(), s.out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func (c *children) run(args, env []string, out *os.File) (syscall.WaitStatus, error) {
	done := make(chan ended, 1)
	c.start <- started{args, env, out, done}
	e := <-done
	return e.status, e.err
}
