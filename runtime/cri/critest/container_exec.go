package critest

import (
	"bytes"
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// ExecSync runs a command of the command language, or of Config.Programs, next to the container's
// process: it sees the same files and ends with the process.
func (s service) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	c := s.container(req.GetContainerId())
	if c == nil {
		return nil, errNoContainer(req.GetContainerId())
	}
	var out, errs output
	caller := ctx
	p, err := s.newExec(c, req.GetCmd(), streams.Console{Out: &out, Errs: &errs})
	if err != nil {
		return nil, err
	}
	if t := seconds(req.GetTimeout()); t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	code, err := runExec(ctx, c, p)
	if err != nil && s.cfg.Like == CRIO && caller.Err() == nil {
		return &runtimeapi.ExecSyncResponse{Stderr: []byte("command timed out"), ExitCode: -1}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: out.bytes(), Stderr: errs.bytes(), ExitCode: int32(code)}, nil
}

func (s service) newExec(c *container, cmd []string, io streams.Console) (*sh.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != runtimeapi.ContainerState_CONTAINER_RUNNING || !c.running {
		return nil, status.Errorf(s.cfg.Like.execNotRunning(), "failed to exec in container: container is in %s state", c.state)
	}
	if len(cmd) == 0 {
		return nil, status.Error(codes.InvalidArgument, "failed to exec in container: no command")
	}
	main := c.process
	p := sh.New(sh.Config{
		Args: cmd, Env: c.environment(), Stdin: io.In, Stdout: io.Out, Stderr: io.Errs, Terminal: io.TTY, Files: c.files,
		Programs: s.programs(c, io), Kill: main.SignalInside, User: c.uid(), Groups: c.groups(), Host: c.sandbox.hostname(),
	})
	if !p.Found() {
		if c.image.serves(cmd[0]) {
			return nil, status.Errorf(codes.Unknown, "failed to exec in container: in memory, %q of %s is a server, which only a container runs", cmd[0], c.image.Name)
		}
		return nil, status.Errorf(codes.Unknown, "failed to exec in container: failed to start exec: exec: %q: executable file not found in $PATH", cmd[0])
	}
	return p, nil
}

// runExec runs the process until it ends, its context ends or its container ends.
func runExec(ctx context.Context, c *container, p *sh.Process) (int, error) {
	done := make(chan int, 1)
	go func() { done <- p.Run() }()
	select {
	case code := <-done:
		return code, nil
	case <-c.exited:
		p.Signal(sh.SIGKILL)
		return <-done, nil
	case <-ctx.Done():
		p.Signal(sh.SIGKILL)
		<-done
		return 0, status.Errorf(status.FromContextError(ctx.Err()).Code(), "failed to exec in container: timeout exceeded: %v", ctx.Err())
	}
}

// maxOutput is the maximum output of a stream in an ExecSync response. CRI requires the rest to be
// discarded.
const maxOutput = 16 << 20

// An output collects a stream of an ExecSync.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p[:min(len(p), maxOutput-o.b.Len())])
	return len(p), nil
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.b.Bytes())
}
