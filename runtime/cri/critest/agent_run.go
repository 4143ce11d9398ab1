package critest

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

// An AgentRun is one run of an agent that runs as goroutines of this process, from its start until Stop or Kill. Its
// methods may be called concurrently, but not Go together with Stop or Kill.
type AgentRun struct {
	// Conn is the agent's connection to the runtime, as that of Direct. A killed agent gets no response.
	Conn grpc.ClientConnInterface

	root   string
	report func(*v1.Pod, v1.PodStatus)
	ctx    context.Context
	end    context.CancelFunc
	parts  sync.WaitGroup
	kill   sync.Once
	killed chan struct{} // closed by Kill
}

// NewAgentRun returns a run of an agent that keeps its files below a directory, which must exist. It starts nothing.
// [Node] has such runs.
func (r *Runtime) NewAgentRun(root string) *AgentRun {
	return r.newAgentRun(root, func(*v1.Pod, v1.PodStatus) {})
}

func (r *Runtime) newAgentRun(root string, report func(*v1.Pod, v1.PodStatus)) *AgentRun {
	a := &AgentRun{root: root, report: report, killed: make(chan struct{})}
	a.ctx, a.end = context.WithCancel(r.life)
	a.Conn = agentConn{r.Direct(), r, a}
	return a
}

// Go runs a part of the agent in a goroutine. The part must return after its ctx has ended.
func (a *AgentRun) Go(part func(ctx context.Context)) { a.parts.Go(func() { part(a.ctx) }) }

// Report records a status that the agent would write to an API server. A killed agent reports nothing: Report returns an
// error when the agent's ctx ends. It has the signature of a syncpod.StatusSinkFunc.
func (a *AgentRun) Report(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	if a.isKilled() {
		<-a.ctx.Done()
		return a.ctx.Err()
	}
	a.report(pod, status)
	return nil
}

// Transport returns a transport for the agent's requests to an HTTP server, such as an API server; next sends them. A killed
// agent sends none and gets no response: RoundTrip returns an error after the agent's ctx has ended. The agent can still
// read the body of a response that it received before.
func (a *AgentRun) Transport(next http.RoundTripper) http.RoundTripper {
	return agentTransport{next, a}
}

type agentTransport struct {
	next http.RoundTripper
	run  *AgentRun
}

// RoundTrip sends a request.
func (t agentTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var response *http.Response
	var err error
	if !t.run.isKilled() {
		response, err = t.next.RoundTrip(req)
	} else if req.Body != nil {
		req.Body.Close()
	}
	if !t.run.isKilled() {
		return response, err
	}
	if response != nil {
		response.Body.Close()
	}
	<-t.run.ctx.Done()
	return nil, t.run.ctx.Err()
}

// Stop ends the agent's ctx, and returns when all parts have returned.
func (a *AgentRun) Stop() {
	a.end()
	a.parts.Wait()
}

// Kill ends the agent as SIGKILL ends a process: the agent gets no response from now on, sends no request through its
// Transport, and reports nothing. Its goroutines run until they notice the end of their ctx and may still write files, so
// Kill restores the files below the agent's root, except in root/pods, to which containers write. Containers keep running. A
// second Kill does nothing.
func (a *AgentRun) Kill() error {
	var err error
	a.kill.Do(func() {
		close(a.killed)
		thaw, frozen := freeze(a.root)
		a.Stop()
		if err = frozen; err == nil {
			err = thaw()
		}
	})
	return err
}

func (a *AgentRun) isKilled() bool {
	select {
	case <-a.killed:
		return true
	default:
		return false
	}
}

// An agentConn is the connection of an agent that can be killed.
type agentConn struct {
	grpc.ClientConnInterface
	runtime *Runtime
	run     *AgentRun
}

// DialPod connects to a pod port, until the agent is killed.
func (c agentConn) DialPod(ctx context.Context, network, address string) (net.Conn, error) {
	if c.run.isKilled() {
		<-c.run.ctx.Done()
		return nil, context.Canceled
	}
	return c.runtime.DialPod(ctx, network, address)
}

// callContext returns a ctx for a call, which the end of a killed agent also ends. end releases it.
func (a *AgentRun) callContext(ctx context.Context) (call context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.ctx, func() {
		if a.isKilled() {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// Invoke makes a call.
func (c agentConn) Invoke(ctx context.Context, method string, request, response any, opts ...grpc.CallOption) error {
	ctx, end := c.run.callContext(ctx)
	defer end()
	var err error
	if !c.run.isKilled() {
		err = c.ClientConnInterface.Invoke(ctx, method, request, response, opts...)
	}
	if c.run.isKilled() {
		<-c.run.ctx.Done()
		return status.FromContextError(context.Canceled).Err()
	}
	return err
}

// NewStream opens a stream, from which a killed agent receives nothing more.
func (c agentConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.run.isKilled() {
		<-c.run.ctx.Done()
		return nil, status.FromContextError(context.Canceled).Err()
	}
	ctx, end := c.run.callContext(ctx)
	s, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		end()
		return nil, err
	}
	return agentStream{s, c.run, end}, nil
}

type agentStream struct {
	grpc.ClientStream
	run *AgentRun
	end func()
}

// RecvMsg receives a message.
func (s agentStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.end()
	}
	if s.run.isKilled() {
		<-s.run.ctx.Done()
		return status.FromContextError(context.Canceled).Err()
	}
	return err
}

// podsDir is the directory below an agent's root to which containers write.
const podsDir = "pods"

// freeze copies an agent's files, and returns a function that restores them.
func freeze(root string) (thaw func() error, err error) {
	kept := root + ".frozen"
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(kept), os.Mkdir(kept, 0o700)); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !isFrozen(e) {
			continue
		}
		if err := copyTree(filepath.Join(root, e.Name()), filepath.Join(kept, e.Name())); err != nil {
			return nil, err
		}
	}
	return func() error { return errors.Join(replace(root, kept), os.RemoveAll(kept)) }, nil
}

// isFrozen reports whether an entry of the root is restored: all but the pod directory, and sockets.
func isFrozen(e os.DirEntry) bool {
	return e.Name() != podsDir && e.Type()&^(fs.ModeDir|fs.ModeSymlink) == 0
}

// copyTree copies a file or directory. It skips files that the dying agent removes meanwhile, and those that are neither
// regular nor links.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, path)
		if err = errors.Join(err, relErr); err == nil {
			err = copyEntry(path, filepath.Join(to, rel), e)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func copyEntry(from, to string, e os.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return os.Mkdir(to, info.Mode().Perm())
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case 0:
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(to, content, info.Mode().Perm()), os.Chtimes(to, info.ModTime(), info.ModTime()))
	}
	return nil
}

// replace replaces an agent's files by their copies.
func replace(root, kept string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isFrozen(e) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	old, readErr := os.ReadDir(kept)
	err = errors.Join(err, readErr)
	for _, e := range old {
		err = errors.Join(err, os.Rename(filepath.Join(kept, e.Name()), filepath.Join(root, e.Name())))
	}
	return err
}
