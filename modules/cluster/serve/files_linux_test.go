package serve

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Authorities rejects a FIFO in place of a file. Opening it would wait for a writer.
func TestAuthoritiesInAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := Authorities(path, func(error) {})
		answer <- err
	}()
	select {
	case err := <-answer:
		if err == nil {
			t.Error("authorities are read from a FIFO")
		}
	case <-time.After(10 * time.Second):
		t.Error("the server waits for a writer of the FIFO")
	}
}

// TestCertificateInAFIFO: the files of the server's certificate are replaced by FIFOs while the server runs.
func TestCertificateInAFIFO(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tls.crt")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := Files(path, filepath.Join(dir, "tls.key"), func(error) {})
		answer <- err
	}()
	select {
	case err := <-answer:
		if err == nil {
			t.Error("a certificate is read from a FIFO")
		}
	case <-time.After(10 * time.Second):
		t.Error("the server waits for a writer of the FIFO")
	}
}
