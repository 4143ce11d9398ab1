package credentialprovider_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// All processes of a plugin are killed if it takes too long, or if it leaves a process that keeps its output open.
func TestProcessesOfAPluginAreKilled(t *testing.T) {
	for name, last := range map[string]string{"takes too long": "sleep 300", "leaves a process": "exit 0"} {
		n := newNode(t, one("ecr"))
		pipe := filepath.Join(t.TempDir(), "pipe")
		must.Do(t, syscall.Mkfifo(pipe, 0o600))
		n.plugin("ecr", "exec 3> "+pipe+"; echo >&3; sleep 300 &\n"+last)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		p := n.provider()
		go func() {
			_, err := p.PullSecrets(ctx, podOf("p", "a.example.com/one"))
			failed <- err
		}()
		file, err := os.Open(pipe) // which waits for the plugin
		must.Do(t, err)
		defer file.Close()
		must.Get(file.Read(make([]byte, 1)))(t)
		if last == "exit 0" {
			if err := <-failed; !errors.Is(err, exec.ErrWaitDelay) {
				t.Errorf("%s: %v", name, err)
			}
		}
		cancel()
		must.Do(t, file.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := io.ReadAll(file); err != nil { // it ends once no process has the pipe
			t.Errorf("%s: the processes of the plugin live: %v", name, err)
		}
	}
}
