package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The node rejects a FIFO in place of a file, because it would block until a writer opens it, and a file with a terabyte.
func TestFIFOsAreNotOpened(t *testing.T) {
	fifo, huge := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "huge")
	must.Do(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(huge, nil, 0o600), os.Truncate(huge, 1<<40)))
	for _, path := range []string{fifo, huge} {
		wantNotRead(t, path)
	}
}

func wantNotRead(t *testing.T, path string) {
	for name, read := range map[string]func() error{
		"the resolver configuration": func() error {
			_, err := newResolver(&kubelet.KubeletConfiguration{ResolverConfig: &path}, "n1", logr.Discard(), record.NewFakeRecorder(1))
			return err
		},
		"the key of the memory": func() error {
			_, err := (&agent{options: options{root: t.TempDir(), checkpointKey: path}}).checkpoint(&parts{})
			return err
		},
	} {
		answer := make(chan error, 1)
		go func() { answer <- read() }()
		select {
		case err := <-answer:
			if err == nil {
				t.Errorf("%s is read from %s", name, path)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the agent waits for a writer of the FIFO", name)
		}
	}
}

// The test replaces the file by a FIFO, and back, again and again, while the node reads the file.
func TestResolverConfigurationIsSwappedForAFIFO(t *testing.T) {
	dir := t.TempDir()
	path, file, fifo, next := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "next")
	must.Do(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(file, []byte("nameserver 192.0.2.1\n"), 0o600)))
	reads := make(chan struct{})
	go func() {
		defer close(reads)
		for range 2000 {
			_, _ = readResolvConf(path)
		}
	}()
	for end := time.After(time.Minute); ; {
		select {
		case <-reads:
			return
		case <-end:
			t.Fatal("a read waits for a writer of the FIFO")
		default:
			for _, what := range []string{file, fifo} {
				must.Do(t, errors.Join(os.Link(what, next), os.Rename(next, path)))
			}
		}
	}
}
