package certificates

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A FIFO in place of a kubeconfig is refused: no process writes to it.
func TestKubeconfigInAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := load(path)
		answer <- err
	}()
	select {
	case err := <-answer:
		if err == nil {
			t.Error("a kubeconfig is read from a FIFO")
		}
	case <-time.After(10 * time.Second):
		t.Error("the agent waits for a writer of the FIFO")
	}
}

// Paths in a kubeconfig are relative to its directory, as for all users of kubeconfigs.
func TestPathsOfAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet.conf")
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://192.0.2.1", certificate-authority: ca.crt}}], users: [{name: u, user: {client-certificate: pki/a.crt, client-key: pki/a.key}}]}`
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "pki"), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "pki/a.crt", "pki/a.key"} { // client-go opens them
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://192.0.2.1" || c.CAFile != filepath.Join(dir, "ca.crt") || c.CertFile != filepath.Join(dir, "pki", "a.crt") || c.KeyFile != filepath.Join(dir, "pki", "a.key") {
		t.Errorf("%s with the files %q, %q, %q", c.Host, c.CAFile, c.CertFile, c.KeyFile)
	}
}
