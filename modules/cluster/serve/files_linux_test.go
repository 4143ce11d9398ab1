package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// wantNotRead checks that a read rejects a FIFO, which would block until a writer opens it, and a file with a terabyte.
func wantNotRead(t *testing.T, name string, read func(path string) error) {
	t.Helper()
	fifo, huge := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "huge")
	must.Do(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(huge, nil, 0o600), os.Truncate(huge, 1<<40)))
	for path, want := range map[string]string{fifo: "not a regular file", huge: "more than 4194304 bytes"} {
		answer := make(chan error, 1)
		go func() { answer <- read(path) }()
		select {
		case err := <-answer:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q in it", name, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the server waits for a writer of the FIFO", name)
		}
	}
}

func TestAuthoritiesInAFIFO(t *testing.T) {
	wantNotRead(t, "authorities", func(path string) error {
		_, err := Authorities(path, func(error) {})
		return err
	})
}

func TestCertificateInAFIFO(t *testing.T) {
	wantNotRead(t, "certificate", func(path string) error {
		_, err := Files(path, path, func(error) {})
		return err
	})
	certificate := filepath.Join(t.TempDir(), "tls.crt")
	must.Do(t, os.WriteFile(certificate, nil, 0o600))
	wantNotRead(t, "key", func(path string) error {
		_, err := Files(certificate, path, func(error) {})
		return err
	})
}
