package critest

import (
	"context"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
	"github.com/podsync/podsync/runtime/cri/critest/program"
)

// Command is one run of a [Program]: see [program.Command].
type Command = program.Command

// Program is a command written in Go: see [program.Program].
type Program = program.Program

// programs returns stress and the programs of the Config, as they run in a container.
func (s service) programs(c *container, io streams.Console) map[string]sh.Program {
	m := map[string]sh.Program{"stress": s.stress(c)}
	for name, p := range s.cfg.Programs {
		m[name] = func(ctx context.Context, call *sh.Call) int {
			return p(ctx, program.New(call, io.TTY, io.Sizes, func(port int32) (net.Listener, error) { return s.listen(c.sandbox, port) }))
		}
	}
	return m
}

// newProcess creates the process of a container. It does not run yet.
func (s service) newProcess(c *container) (*sh.Process, error) {
	entrypoint := c.image.Entrypoint
	if name := c.config.GetImage().GetUserSpecifiedImage(); len(entrypoint) == 0 && s.cfg.Programs[name] != nil {
		entrypoint = []string{name}
	}
	args := slices.Concat(c.config.GetCommand(), c.config.GetArgs())
	if len(c.config.GetCommand()) == 0 {
		args = slices.Concat(entrypoint, c.config.GetArgs())
		if len(c.config.GetArgs()) == 0 {
			args = slices.Concat(entrypoint, c.image.Cmd)
		}
	}
	if len(args) == 0 {
		if c.image.OnlyKnown {
			return nil, status.Error(codes.InvalidArgument, "failed to generate container spec: no command specified")
		}
		args = []string{"serve"}
	}
	io := c.attached.Console(c.log.stream("stdout"), c.log.stream("stderr"))
	p := sh.New(sh.Config{
		Args: args, Env: c.environment(), Stdin: io.In, Stdout: io.Out, Stderr: io.Errs,
		Terminal: io.TTY, Files: c.files, Init: c.isInit(), Programs: s.programs(c, io), Server: !c.image.OnlyKnown,
	})
	if !p.Found() {
		return nil, status.Errorf(codes.Unknown,
			"failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: %q: executable file not found in $PATH", args[0])
	}
	io.Control(p)
	return p, nil
}

// isInit reports whether the process has number 1 in its PID namespace. In a namespace that the pod
// shares, the sandbox has number 1.
func (c *container) isInit() bool {
	return c.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid() == runtimeapi.NamespaceMode_CONTAINER
}

func (c *container) environment() map[string]string {
	env := map[string]string{"PATH": "/bin", "HOSTNAME": c.sandbox.config.GetHostname()}
	for k, v := range c.image.Env {
		env[k] = v
	}
	for _, e := range c.config.GetEnvs() {
		env[e.GetKey()] = string(e.GetValue())
	}
	return env
}
