package certificates

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// NewClient rejects a FIFO in place of a kubeconfig instead of waiting for a writer.
func TestKubeconfigInAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.conf")
	must.Do(t, syscall.Mkfifo(path, 0o600))
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

// NewClient checks that the files named in a kubeconfig are regular and bounded, before client-go opens them.
func TestFilesOfAKubeconfigAreChecked(t *testing.T) {
	dir := t.TempDir()
	path, bad := filepath.Join(dir, "kubelet.conf"), filepath.Join(dir, "bad")
	for _, make := range []func() error{
		func() error { return syscall.Mkfifo(bad, 0o600) },
		func() error { return errors.Join(os.WriteFile(bad, nil, 0o600), os.Truncate(bad, 1<<40)) },
	} {
		must.Do(t, make())
		for _, field := range []string{"certificate-authority", "client-certificate", "client-key", "tokenFile"} {
			of := map[bool]string{true: field + ": bad"}
			text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://192.0.2.1", %s}}], users: [{name: u, user: {%s}}]}`, of[field == "certificate-authority"], of[field != "certificate-authority"])
			must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			if _, err := load(path); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
		must.Do(t, os.Remove(bad))
	}
}

// Paths in a kubeconfig are relative to its directory, as for all users of kubeconfigs.
func TestPathsOfAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet.conf")
	const text = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://192.0.2.1", certificate-authority: ca.crt}}], users: [{name: u, user: {client-certificate: pki/a.crt, client-key: pki/a.key}}]}`
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(dir, "pki"), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	for _, name := range []string{"ca.crt", "pki/a.crt", "pki/a.key"} { // client-go opens them
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	c := must.Get(load(path))(t)
	if c.Host != "https://192.0.2.1" || c.CAFile != filepath.Join(dir, "ca.crt") || c.CertFile != filepath.Join(dir, "pki", "a.crt") || c.KeyFile != filepath.Join(dir, "pki", "a.key") {
		t.Errorf("%s with the files %q, %q, %q", c.Host, c.CAFile, c.CertFile, c.KeyFile)
	}
}
