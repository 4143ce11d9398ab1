package credentialprovider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The ID of a process group belongs to the plugin whenever the group is killed: the plugin has not been reaped, also if it has ended
// long before and the process that holds its output is in another group.
func TestGroupIsKilledBeforeItIsReaped(t *testing.T) {
	for name, script := range map[string]string{
		"takes too long":   "echo >&2; sleep 300",
		"leaves a process": "setsid sleep 300 & echo $! >&2; exit 0",
	} {
		var kills []error
		ctx, cancel := context.WithCancel(t.Context())
		p := &Provider{kill: func(c *exec.Cmd) error {
			_, err := os.Stat(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
			kills = append(kills, err)
			return killGroup(c)
		}}
		command := exec.Command("/bin/sh", "-c", script)
		started, stderr, err := os.Pipe()
		must.Do(t, err)
		command.Stderr = stderr
		failed := make(chan error, 1)
		go func() {
			_, err := p.execute(ctx, command, nil)
			failed <- err
		}()
		left := 0
		if _, err := fmt.Fscanln(started, &left); err != nil && name == "leaves a process" {
			t.Fatal(err)
		}
		want := exec.ErrWaitDelay
		if left == 0 {
			want = context.Canceled
			cancel()
		}
		if err := <-failed; !errors.Is(err, want) {
			t.Errorf("a plugin that %s: %v, want %v", name, err, want)
		}
		if len(kills) == 0 || errors.Join(kills...) != nil {
			t.Errorf("a plugin that %s is killed with these errors: %v", name, kills)
		}
		cancel()
		if left != 0 {
			process, err := os.FindProcess(left)
			if err == nil {
				err = process.Kill()
			}
			if err != nil {
				t.Error(err)
			}
		}
		_ = errors.Join(stderr.Close(), started.Close())
	}
}

// A program that the kernel cannot end blocks no caller: execute returns some time after its context has ended.
func TestPluginThatCannotBeKilled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	command := exec.Command("/bin/sleep", "300")
	p := &Provider{kill: func(*exec.Cmd) error { return nil }}
	if _, err := p.execute(ctx, command, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	must.Do(t, killGroup(command))
}
