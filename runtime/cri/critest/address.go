package critest

import (
	"net/netip"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// addresses allocates sandbox addresses, one from each prefix. It finds a free address without a scan
// of the used ones.
type addresses struct {
	prefixes []netip.Prefix
	// used counts the sandboxes that have an address, because a test may give two sandboxes the same.
	used map[netip.Addr]int
	// lowest is the first address of each prefix that may be free.
	lowest []netip.Addr
}

func newAddresses(prefixes []netip.Prefix) addresses {
	a := addresses{prefixes: prefixes, used: map[netip.Addr]int{}}
	for _, p := range prefixes {
		// The network and the gateway have the first two addresses.
		a.lowest = append(a.lowest, p.Masked().Addr().Next().Next())
	}
	return a
}

// pick returns the first free address of each prefix. It does not reserve it; take does.
func (a *addresses) pick() ([]string, error) {
	var ips []string
	for i, p := range a.prefixes {
		for a.used[a.lowest[i]] > 0 {
			a.lowest[i] = a.lowest[i].Next()
		}
		if !p.Contains(a.lowest[i]) {
			return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox: no addresses left in %v", p)
		}
		ips = append(ips, a.lowest[i].String())
	}
	return ips, nil
}

func (a *addresses) take(ips []string) {
	for _, text := range ips {
		if ip, err := netip.ParseAddr(text); err == nil {
			a.used[ip]++
		}
	}
}

func (a *addresses) release(ips []string) {
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if a.used[ip]--; a.used[ip] > 0 {
			continue
		}
		delete(a.used, ip)
		for i, p := range a.prefixes {
			if first := p.Masked().Addr().Next(); p.Contains(ip) && first.Less(ip) && ip.Less(a.lowest[i]) {
				a.lowest[i] = ip
			}
		}
	}
}

// setIPs gives a sandbox other addresses, or none. It must be called with mu held.
func (r *Runtime) setIPs(sb *sandbox, ips []string) {
	if r.sandboxes[sb.id] == sb {
		r.addresses.release(sb.ips)
		r.addresses.take(ips)
	}
	sb.ips = ips
}
