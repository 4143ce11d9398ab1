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
			return p(ctx, program.New(program.Command{
				Args: call.Args, Env: call.Env, Stdin: call.Stdin, Stdout: call.Stdout, Stderr: call.Stderr, TTY: io.TTY, Sizes: io.Sizes, Signals: call.Signals,
			}, call.Files, func(port int32) (net.Listener, error) { return s.listen(c.sandbox, port) }))
		}
	}
	return m
}

// newProcess creates a container's process. It does not run yet.
func (s service) newProcess(c *container) (*sh.Process, error) {
	args, own := s.command(c)
	if len(args) == 0 {
		return nil, status.Error(codes.InvalidArgument, "failed to generate container spec: no command specified")
	}
	io := c.attached.Console(c.log.stream("stdout"), c.log.stream("stderr"))
	cfg := sh.Config{
		Args: args, Env: c.environment(), Stdin: io.In, Stdout: io.Out, Stderr: io.Errs, Terminal: io.TTY, Files: c.files,
		Init: c.isInit(), Programs: s.programs(c, io), User: c.uid(), Groups: c.groups(), Host: c.sandbox.hostname(),
	}
	p := sh.New(cfg)
	if !p.Found() {
		if !own && !c.image.serves(args[0]) && (!s.cfg.ServeUnknown || c.image.OnlyKnown) {
			return nil, status.Errorf(codes.Unknown,
				"failed to create containerd task: failed to create shim task: OCI runtime create failed: exec: %q: executable file not found in $PATH", args[0])
		}
		cfg.Server = true
		p = sh.New(cfg)
	}
	io.Control(p)
	return p, nil
}

// command returns a container's command. own means that it is a program of the image that is not described: the
// image has no Entrypoint, and the pod gives no command, or arguments that are no command either.
func (s service) command(c *container) (args []string, own bool) {
	command, arguments := c.config.GetCommand(), c.config.GetArgs()
	if len(command) > 0 {
		return slices.Concat(command, arguments), false
	}
	entrypoint, cmd := c.image.Entrypoint, c.image.Cmd
	if name := c.config.GetImage().GetUserSpecifiedImage(); len(entrypoint) == 0 && s.cfg.Programs[name] != nil {
		entrypoint = []string{name}
	}
	if known := knownImage(c.image.Name); len(entrypoint) == 0 && len(cmd) == 0 && !c.image.OnlyKnown {
		cmd, own = known.cmd, len(known.cmd) == 0
	}
	if len(arguments) == 0 {
		arguments = cmd
	}
	args = slices.Concat(entrypoint, arguments)
	if own && len(args) == 0 {
		args = []string{"serve"}
	}
	return args, own
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
