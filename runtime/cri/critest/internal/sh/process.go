package sh

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"
	"time"
)

// Files is the file system of a process. Names are absolute.
type Files interface {
	ReadFile(name string) ([]byte, error)
	// WriteFile creates the file if it does not exist. It appends if add is true.
	WriteFile(name string, data []byte, add bool) error
	Remove(name string) error
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Mkdir(name string) error
}

// Call is one run of a [Program].
type Call struct {
	Args           []string // the first is the command's name as it was called
	Env            map[string]string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Files          Files
	// Signals delivers the numbers of signals to the process, except SIGKILL, which ends the
	// program's context. A program that never reads it ignores signals.
	Signals <-chan int
}

// Program is a command written in Go. It returns the exit code. When ctx ends, the process has been
// killed, and the Program must return soon.
type Program func(ctx context.Context, c *Call) int

// Config describes a process. Args must not be empty.
type Config struct {
	Args []string
	Env  map[string]string
	// Stdin is the default input of commands. When the process has ended, it is closed if it is an
	// io.Closer. Nil means empty.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal: Stdin is a terminal. It returns one line for each Read, [ErrInterrupted] from a Read that
	// Ctrl-C has interrupted, and io.EOF for each Ctrl-D.
	Terminal bool
	Files    Files
	// Init means that the process has PID 1 in a PID namespace: the kernel ignores signals for which
	// the process has no handler.
	Init bool
	// Programs are commands by name. They take precedence over built-in commands.
	Programs map[string]Program
	// Server means that the command is a server: it runs until a signal, and exits with 128 + its number, as most
	// servers do.
	Server bool
	// Kill sends a signal to process 1 of the same namespace, for any other process.
	Kill func(Signal)
	// User and Groups are numeric; the first group is the primary one. None is group 0.
	User   int64
	Groups []int64
	Host   string // its name
}

// Process is one process and, if it is a shell, its children.
type Process struct {
	cfg     Config
	server  bool
	ctx     context.Context
	end     context.CancelFunc
	signals *signals
	jobs    jobs

	mu    sync.Mutex
	died  int    // exit code given by a signal; 0 if none has ended the process
	typed bool   // the process is a shell that reads its commands from a terminal
	stop  func() // ends the running typed command
}

// ErrInterrupted is the error from a read from a terminal that Ctrl-C
// interrupted.
var ErrInterrupted = errors.New("interrupted")

// New creates a process. Serve runs it if it is a server, and Run otherwise.
func New(cfg Config) *Process {
	ctx, end := context.WithCancel(context.Background())
	p := &Process{cfg: cfg, ctx: ctx, end: end}
	if cfg.Server {
		// A server needs neither files, programs nor an environment: a test may have thousands of them.
		p.cfg, p.server = Config{Stdin: cfg.Stdin, Init: cfg.Init}, true
		return p
	}
	p.signals = newSignals(cfg.Init, p.die)
	if p.cfg.Stdin == nil {
		p.cfg.Stdin = strings.NewReader("")
	}
	return p
}

// Found reports whether the command exists. If it does not, Run returns 127 or 126.
func (p *Process) Found() bool {
	if p.server || p.lookup(p.cfg.Args[0]) != nil {
		return true
	}
	_, err := newShell(p).executable(p.cfg.Args[0])
	return err == nil
}

// IsServer reports whether the process is a server.
func (p *Process) IsServer() bool { return p.server }

// Serve runs a server. It returns at once, and calls exited with the exit code when a signal has ended the server. A
// running server has no goroutine.
func (p *Process) Serve(exited func(code int)) {
	context.AfterFunc(p.ctx, func() {
		if c, ok := p.cfg.Stdin.(io.Closer); ok {
			_ = c.Close() // unblocks writers
		}
		p.mu.Lock()
		code := p.died
		p.mu.Unlock()
		exited(code)
	})
}

// Run runs the process until it ends, and returns its exit code: 128 + n if signal n ended it. All
// goroutines of the process have ended when Run returns.
func (p *Process) Run() int {
	defer p.end()
	if c, ok := p.cfg.Stdin.(io.Closer); ok {
		stop := context.AfterFunc(p.ctx, func() { _ = c.Close() }) // unblocks readers
		defer stop()
	}
	s := newShell(p)
	s.program(p.cfg.Args)
	code := s.last
	p.mu.Lock()
	if p.died != 0 {
		code = p.died
	}
	p.mu.Unlock()
	p.end()
	p.jobs.wait()
	return code
}

// Signal sends a signal from outside the process's namespace.
func (p *Process) Signal(n Signal) {
	if p.server {
		p.die(n)
		return
	}
	p.signals.send(n)
}

// Interrupt is Ctrl-C at the process's terminal. If a shell reads its commands from the terminal, Interrupt ends
// the running command, and the shell reads the next one. Otherwise it is SIGINT.
func (p *Process) Interrupt() {
	p.mu.Lock()
	typed := p.typed
	if typed && p.stop != nil {
		p.stop()
	}
	p.mu.Unlock()
	if !typed {
		p.Signal(SIGINT)
	}
}

func (p *Process) die(n Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died == 0 {
		p.died = exitBySignal(n)
	}
	p.end()
}

// SignalInside sends a signal from inside the process's namespace, where process 1 cannot be killed, and a server reloads by
// SIGHUP, SIGUSR1 or SIGUSR2.
func (p *Process) SignalInside(n Signal) {
	reloads := n == SIGHUP || n == SIGUSR1 || n == SIGUSR2 || ignoredByDefault(n)
	if (n != SIGKILL || !p.cfg.Init) && !(p.server && reloads) {
		p.Signal(n)
	}
}

// forever is a sleep that ends only with the process. It needs no timer; virtual time would advance to
// a timer.
const forever = time.Duration(math.MaxInt64)

// sleep returns false if the command was ended before the duration had passed.
func (s *shell) sleep(d time.Duration) bool {
	if d == forever {
		<-s.ctx.Done()
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// lookup returns a command by its name. Config.Programs come first, under the whole path and then under
// the base name; then built-in commands, at the paths that busybox has.
func (p *Process) lookup(name string) applet {
	dir, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	for _, n := range []string{name, base} {
		if prog := p.cfg.Programs[n]; prog != nil {
			return p.foreground(prog)
		}
	}
	switch dir {
	case "", "/bin", "/usr/bin", "/sbin", "/usr/sbin":
		return applets(base)
	}
	return nil
}

// foreground returns an applet that runs a program: while it runs, it receives the signals.
func (p *Process) foreground(prog Program) applet {
	return func(s *shell, args []string) int {
		var received <-chan int
		if s.signals != nil {
			c, done := s.signals.foreground()
			defer done()
			received = c
		}
		return prog(s.ctx, &Call{
			Args: args, Env: s.exported(), Stdin: s.fds[0].r, Stdout: s.fds[1].w, Stderr: s.fds[2].w,
			Files: p.cfg.Files, Signals: received,
		})
	}
}
