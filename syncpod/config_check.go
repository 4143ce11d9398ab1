package syncpod

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// check returns an error that names the invalid field. It rejects nil elements, because calling one would
// panic.
func (e *Extensions) check() error {
	for i, a := range e.Admit {
		if a == nil {
			return fmt.Errorf("syncpod: Config.Extensions.Admit[%d] is nil", i)
		}
	}
	return nil
}

// check returns an error that names the invalid field.
func (n *Node) check() error {
	for _, dir := range []struct{ field, path string }{{"LogsRoot", n.LogsRoot}, {"LogLinks", n.LogLinks}} {
		if dir.path != "" && !filepath.IsAbs(dir.path) {
			return fmt.Errorf("%s %q is not an absolute path", dir.field, dir.path)
		}
	}
	dns := n.dns()
	for _, list := range []struct {
		field     string
		addresses []string
	}{{"HostIPs", n.hostIPs()}, {"DNS.Servers", dns.Servers}, {"DNS.ClusterServers", dns.ClusterServers}} {
		for i, address := range list.addresses {
			if _, err := netip.ParseAddr(address); err != nil {
				return fmt.Errorf("%s[%d] %q is not an IP address", list.field, i, address)
			}
		}
	}
	if n.Containers.MemoryBytes < 0 {
		return fmt.Errorf("Containers.MemoryBytes is %d, want 0 or more", n.Containers.MemoryBytes)
	}
	return nil
}
