package main

import (
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
)

// maxResolvConf is the maximum size of the resolver configuration, in bytes.
const maxResolvConf = 64 << 10

// A resolver reads the node's resolver configuration for each sandbox, because DHCP may change it while the node runs.
type resolver struct {
	path    string // empty for none
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
	r := &resolver{path: *k.ResolverConfig, cluster: sandbox.NodeDNS{ClusterServers: k.ClusterDNS, ClusterDomain: k.ClusterDomain}}
	r.failed = func(err error) {
		log.Error(err, "resolvConf cannot be read, pods get what was read last", "path", r.path)
		events.Event(node, v1.EventTypeWarning, "CheckLimitsForResolvConf", err.Error())
	}
	if r.last, r.err = readResolvConf(r.path); r.err != nil {
		return nil, fmt.Errorf("resolvConf: %w", r.err)
	}
	return r, nil
}

// dns returns the current settings of name resolution.
func (r *resolver) dns() sandbox.NodeDNS {
	now, err := readResolvConf(r.path)
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
