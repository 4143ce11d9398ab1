package poddir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

// Of a log of a terabyte the end is read. A FIFO or a link in the place of the log is neither opened nor followed.
func TestEndOfAnEndlessLog(t *testing.T) {
	logs := t.TempDir()
	d := newDirs(t, poddir.Config{LogsRoot: logs})
	pod := webPod()
	pod.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	path := filepath.Join(logs, "shop_web-0_u-1", "app", "0.log")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
	size := int64(1 << 40)
	if os.Truncate(path, size) != nil {
		size = 1 << 30 // as large as a file may be here
	}
	// Short lines: the window, and not the number of lines, bounds what is read.
	end := strings.Repeat("2026-01-01T00:00:00Z stdout F \n", 60) + "2026-01-01T00:00:00Z stderr F the end\n"
	file := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	must.Get(file.WriteAt([]byte("\n"+end), size))(t)
	must.Do(t, file.Close())
	if got := messageOf(t, d, pod, ended(0, 1)); len(got) > 2048 || !strings.HasSuffix(got, "\nthe end\n") {
		t.Errorf("%d bytes are reported, and they end with %.20q", len(got), got[max(0, len(got)-20):])
	}
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("2026-01-01T00:00:00Z stderr F hunter2\n"), 0o600))
	for name, swap := range map[string]func() error{
		"a FIFO": func() error { return syscall.Mkfifo(path, 0o600) },
		"a link": func() error { return os.Symlink(secret, path) },
	} {
		must.Do(t, errors.Join(os.Remove(path), swap()))
		if got, err := d.TerminationMessage(pod, ended(0, 1)); err == nil || got != "" {
			t.Errorf("%s is read: %q, %v", name, got, err)
		}
	}
}
