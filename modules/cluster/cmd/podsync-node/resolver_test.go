package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// E5: the node's resolver configuration is read for each sandbox. While it cannot be read, the last one is used, and one
// event is recorded, not one for each sandbox.
func TestE5_ResolverConfigurationIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("nameserver 192.0.2.1\n")
	events := record.NewFakeRecorder(10)
	k := &kubelet.KubeletConfiguration{ResolverConfig: &path, ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}
	r := must.Get(newResolver(k, "n1", logr.Discard(), events))(t)
	want := func(server string, told int) {
		t.Helper()
		d := r.dns()
		if !slices.Equal(d.Servers, []string{server}) || !slices.Equal(d.ClusterServers, k.ClusterDNS) || d.ClusterDomain != k.ClusterDomain {
			t.Errorf("%+v, want the server %s", d, server)
		}
		if got := len(events.Events); got != told {
			t.Errorf("%d events, want %d", got, told)
		}
	}
	want("192.0.2.1", 0)
	write("nameserver 192.0.2.2\n")
	want("192.0.2.2", 0)
	write("nameserver 192.0.2.3\n" + strings.Repeat("#", maxResolvConf))
	want("192.0.2.2", 1)
	must.Do(t, os.Remove(path))
	want("192.0.2.2", 1)
	write("nameserver 192.0.2.4\n")
	want("192.0.2.4", 1)
	must.Do(t, os.Remove(path))
	must.Do(t, os.Mkdir(path, 0o700))
	want("192.0.2.4", 2)
	if event := <-events.Events; !strings.HasPrefix(event, "Warning CheckLimitsForResolvConf ") || !strings.Contains(event, "65536 bytes") {
		t.Errorf("event %q", event)
	}
	if _, err := newResolver(k, "n1", logr.Discard(), events); err == nil || !strings.Contains(err.Error(), "resolvConf: ") {
		t.Errorf("an agent starts with a directory: %v", err)
	}
}

// S8: the servers behind a resolver on the node's loopback are read, too.
func TestS8_ServersBehindTheLoopback(t *testing.T) {
	dir := t.TempDir()
	stub, behind := filepath.Join(dir, "stub"), filepath.Join(dir, "behind")
	r := &resolver{path: stub, behind: behind}
	want := func(text string, servers ...string) {
		t.Helper()
		must.Do(t, os.WriteFile(stub, []byte(text), 0o600))
		if d, err := r.read(); err != nil || !slices.Equal(d.Servers, servers) || !slices.Equal(d.Searches, []string{"example.com"}) {
			t.Errorf("%q: %+v, %v, want %v", text, d, err, servers)
		}
	}
	want("nameserver 127.0.0.53\nsearch example.com\n", "127.0.0.53")
	must.Do(t, os.WriteFile(behind, []byte("nameserver 192.0.2.1\nnameserver 192.0.2.2\n"), 0o600))
	want("nameserver 127.0.0.53\nsearch example.com\n", "127.0.0.53", "192.0.2.1", "192.0.2.2")
	want("nameserver 127.0.0.53\nnameserver 192.0.2.9\nsearch example.com\n", "127.0.0.53", "192.0.2.9")
	want("search example.com\n")
}
