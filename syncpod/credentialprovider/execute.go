package credentialprovider

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"
)

const (
	// maxOutput is the maximum output from a plugin, in bytes.
	maxOutput = 1 << 20
	// leaveDelay is the time that a plugin has to end after it was killed, and that its other processes have to close its output
	// after it has ended.
	leaveDelay = 2 * time.Second
)

// errOutput is the error from a plugin that prints too much.
var errOutput = errors.New("it prints more than 1 MiB")

// bounded stores a program's output, up to a limit.
type bounded struct {
	text []byte
	full bool
}

// Write returns an error once the limit is passed.
func (b *bounded) Write(text []byte) (int, error) {
	if b.full = b.full || len(b.text)+len(text) > maxOutput; b.full {
		return 0, errOutput
	}
	b.text = append(b.text, text...)
	return len(text), nil
}

// execute runs a program with an input, and returns its output. It kills all processes of the program's group when ctx
// ends, and when processes hold the output open after the program has ended. It reaps the program only after that, because
// the ID of its group may then belong to other processes.
func (p *Provider) execute(ctx context.Context, command *exec.Cmd, input []byte) ([]byte, error) {
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	ownGroup(command)
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_, _ = stdin.Write(input) // it fails if the program does not read it
		_ = stdin.Close()
	}()
	var output bounded
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&output, stdout) // bounded records why it ends early
		_ = stdout.Close()
	}()
	ended := make(chan reap, 1)
	go func() { ended <- awaitExit(command) }()
	end, err := p.awaitEnd(ctx, command, ended)
	if end == nil {
		_ = stdout.Close()
		go func() { _ = (<-ended)() }()
		return nil, err
	}
	select {
	case <-read:
	case <-time.After(leaveDelay):
		_ = p.kill(command) // it fails if no process is in the group of the program any more
		_ = stdout.Close()
		<-read
		err = exec.ErrWaitDelay
	}
	err = errors.Join(err, end())
	switch {
	case output.full: // the program may have ended because its output is no longer read
		return nil, errOutput
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return output.text, err
}

// awaitEnd returns how the program is reaped once it has ended. It kills the program when ctx ends, and returns nil if the program does
// not end even then, because the kernel holds it.
func (p *Provider) awaitEnd(ctx context.Context, command *exec.Cmd, ended <-chan reap) (reap, error) {
	select {
	case end := <-ended:
		return end, nil
	case <-ctx.Done():
	}
	_ = p.kill(command) // it fails if the program ends at the same time
	select {
	case end := <-ended:
		return end, nil
	case <-time.After(leaveDelay):
		return nil, context.Cause(ctx)
	}
}
