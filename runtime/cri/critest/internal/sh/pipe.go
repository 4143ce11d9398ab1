package sh

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"mvdan.cc/sh/v3/syntax"
)

// maxPipe is the capacity of a pipe in bytes, as on Linux.
const maxPipe = 64 << 10

// A pipe is a pipe in memory: a write does not wait for its reader while there is room, as in a kernel.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	data    []byte
	written bool   // the last writer has closed it
	read    bool   // the reader has closed it
	broken  func() // called for a write without a reader
}

func newPipe(broken func()) *pipe {
	p := &pipe{broken: broken}
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data) == 0 && !p.written && !p.read {
		p.changed.Wait()
	}
	if len(p.data) == 0 || p.read {
		return 0, io.EOF
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	p.changed.Broadcast()
	return n, nil
}

func (p *pipe) Write(b []byte) (n int, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(b) {
		for len(p.data) >= maxPipe && !p.read {
			p.changed.Wait()
		}
		if p.read {
			p.broken()
			return n, io.ErrClosedPipe
		}
		k := min(len(b)-n, maxPipe-len(p.data))
		p.data, n = append(p.data, b[n:n+k]...), n+k
		p.changed.Broadcast()
	}
	return n, nil
}

func (p *pipe) closeWrite() { p.close(&p.written) }
func (p *pipe) closeRead()  { p.close(&p.read) }

func (p *pipe) close(end *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*end = true
	p.changed.Broadcast()
}

// pipeline runs a | b | c, each in a subshell.
func (s *shell) pipeline(c *syntax.BinaryCmd) {
	stmts, both := stages(c)
	codes, in := make([]int, len(stmts)), s.fds[0]
	var wait sync.WaitGroup
	for i, st := range stmts {
		child := s.fork()
		ctx, end := context.WithCancel(s.ctx)
		child.ctx, child.fds[0] = ctx, in
		closeInput := func() {}
		if p, ok := in.r.(*pipe); ok && i > 0 {
			closeInput = p.closeRead
		}
		closeOutput := func() {}
		var broken atomic.Bool
		if i < len(stmts)-1 {
			p := newPipe(func() { broken.Store(true); end() })
			child.fds[1], in, closeOutput = file{w: p}, file{r: p}, p.closeWrite
			if both[i] {
				child.fds[2] = file{w: p}
			}
		}
		interrupted := context.AfterFunc(ctx, func() { closeInput(); closeOutput() })
		wait.Go(func() {
			defer end()
			child.stmt(st)
			child.finish()
			if codes[i] = child.last; broken.Load() {
				codes[i] = exitBySignal(SIGPIPE)
			}
			interrupted()
			closeInput()
			closeOutput()
		})
	}
	wait.Wait()
	s.last = codes[len(codes)-1]
	if s.opts.pipefail {
		for _, code := range codes {
			if code != 0 {
				s.last = code
			}
		}
	}
}

// stages returns a pipeline's statements, and whether each also passes on its standard error.
func stages(c *syntax.BinaryCmd) (stmts []*syntax.Stmt, both []bool) {
	last := &syntax.Stmt{Cmd: c}
	for {
		b, ok := last.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || last.Negated || len(last.Redirs) > 0 {
			break
		}
		stmts, both = append(stmts, b.Y), append(both, b.Op == syntax.PipeAll)
		last = b.X
	}
	stmts = append(stmts, last)
	slices.Reverse(stmts)
	slices.Reverse(both)
	return stmts, both
}

// A job is a command in the background.
type job struct {
	pid     int
	done    chan struct{}
	code    int // once done is closed
	signals *signals
}

// jobs are a process's jobs.
type jobs struct {
	mu      sync.Mutex
	last    int // the greatest process ID in use
	running []*job
	group   sync.WaitGroup
}

func (j *jobs) wait() { j.group.Wait() }

// number returns an unused process ID. 1 is that of the container's process.
func (j *jobs) number() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = max(j.last, 1) + 1
	return j.last
}

// find returns a running job of the process.
func (j *jobs) find(pid int) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.running {
		if r.pid == pid {
			return r
		}
	}
	return nil
}

func (j *jobs) start(r *job, run func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running = append(j.running, r)
	j.group.Go(func() {
		run()
		j.mu.Lock()
		j.running = slices.DeleteFunc(j.running, func(other *job) bool { return other == r })
		j.mu.Unlock()
		close(r.done)
	})
}

func (s *shell) background(st *syntax.Stmt) {
	child := s.fork()
	ctx, end := context.WithCancel(s.p.ctx) // Ctrl-C ends the foreground only
	j := &job{pid: s.p.jobs.number(), done: make(chan struct{})}
	died := 0
	j.signals = newSignals(false, func(n Signal) {
		if died == 0 {
			died = exitBySignal(n)
		}
		end()
	})
	child.ctx, child.signals = ctx, j.signals
	run := *st
	run.Background = false
	s.mine, s.lastJob, s.last = append(s.mine, j), j.pid, 0
	s.p.jobs.start(j, func() {
		defer end()
		child.stmt(&run)
		child.runTraps()
		child.finish()
		j.signals.mu.Lock()
		defer j.signals.mu.Unlock()
		if j.code = child.last; died != 0 {
			j.code = died
		}
	})
}
