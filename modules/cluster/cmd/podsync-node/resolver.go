package main

import (
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
)

// upstream lists the servers behind systemd-resolved, which pods can reach.
const upstream = "/run/systemd/resolve/resolv.conf"

// maxResolvConf is the maximum size of the resolver configuration, in bytes.
const maxResolvConf = 64 << 10

// A resolver reads the node's resolver configuration for each sandbox, because DHCP may change it while the node runs.
type resolver struct {
	path string // empty for none
	// behind is the file with the servers behind a resolver on the node's loopback. It need not exist.
	behind  string
	cluster sandbox.NodeDNS
	failed  func(error)

	mu sync.Mutex
	// last is the last configuration that could be read, and err the last attempt's error.
	last sandbox.NodeDNS
	err  error
}

// newResolver returns a resolver of the node's configuration. If the file cannot be read, the resolver records a node
// event, as a kubelet does, and logs the error, once until the file can be read again.
func newResolver(k *kubelet.KubeletConfiguration, name string, log logr.Logger, events record.EventRecorder) (*resolver, error) {
	node := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
	r := &resolver{path: *k.ResolverConfig, behind: upstream, cluster: sandbox.NodeDNS{ClusterServers: k.ClusterDNS, ClusterDomain: k.ClusterDomain}}
	r.failed = func(err error) {
		log.Error(err, "resolvConf cannot be read, pods get what was read last", "path", r.path)
		events.Event(node, v1.EventTypeWarning, "CheckLimitsForResolvConf", err.Error())
	}
	if r.last, r.err = r.read(); r.err != nil {
		return nil, fmt.Errorf("resolvConf: %w", r.err)
	}
	return r, nil
}

// dns returns the current settings of name resolution.
func (r *resolver) dns() sandbox.NodeDNS {
	now, err := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.last = now
	case r.err == nil:
		r.failed(err)
	}
	r.err = err
	d := r.last
	d.ClusterServers, d.ClusterDomain = r.cluster.ClusterServers, r.cluster.ClusterDomain
	return d
}

// read reads the node's configuration. If its servers are all on the loopback, the ones behind them are added: only these are
// of use for pods with their own network.
func (r *resolver) read() (sandbox.NodeDNS, error) {
	dns, err := readResolvConf(r.path)
	other := func(s string) bool { return !net.ParseIP(s).IsLoopback() }
	if err != nil || len(dns.Servers) == 0 || slices.ContainsFunc(dns.Servers, other) {
		return dns, err
	}
	if behind, err := readResolvConf(r.behind); err == nil {
		dns.Servers = append(dns.Servers, behind.Servers...)
	}
	return dns, nil
}

func readResolvConf(path string) (sandbox.NodeDNS, error) {
	if path == "" {
		return sandbox.NodeDNS{}, nil
	}
	text, err := hostfs.ReadPath(path, maxResolvConf) // opening a FIFO would wait for a writer
	if err != nil {
		return sandbox.NodeDNS{}, err
	}
	return sandbox.ParseResolvConf(string(text)), nil
}
