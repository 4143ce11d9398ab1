package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

const (
	// addressInterval is the interval of checks of the node's address.
	addressInterval = 10 * time.Second
	// routeTimeout is a check's timeout, which resolves the API server's name.
	routeTimeout = 5 * time.Second
)

// A foundAddress is an address of the node that no option sets.
type foundAddress struct {
	ips []netip.Addr
	// guessed means that there was no route to the API server when the address was found.
	guessed bool
}

// addresses returns the node's addresses: the values of --node-ip, or else the source address of the route to the API
// server.
func (a *agent) addresses() []netip.Addr {
	if found := a.found.Load(); found != nil {
		return found.ips
	}
	return a.ips
}

// watchAddress replaces the node's address until ctx ends, unless an option sets it. It replaces a guessed address as
// soon as there is a route to the API server, and any other address once no interface has it, because DHCP may assign
// another node. It keeps an address that an interface still has: with several servers or temporary IPv6 addresses the
// route may change each time, and with it the addresses of the Node and its pods. While there is no route, the last
// address stays.
func (a *agent) watchAddress(ctx context.Context) error {
	if len(a.ips) > 0 {
		return nil
	}
	for {
		a.checkAddress(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(addressInterval):
		}
	}
}

// checkAddress replaces the node's address if necessary.
func (a *agent) checkAddress(ctx context.Context) {
	found := a.found.Load()
	if found != nil && !found.guessed {
		present, err := a.interfaces()
		if err != nil || !slices.ContainsFunc(found.ips, func(ip netip.Addr) bool { return !slices.Contains(present, ip) }) {
			return
		}
	}
	ips, err := a.route(ctx, a.server)
	if err != nil {
		return
	}
	if !slices.Equal(ips, a.addresses()) {
		a.log.Info("The address of the node has changed", "from", a.addresses(), "to", ips)
	}
	a.found.Store(&foundAddress{ips: ips})
}

// findAddress finds the source address of the route to the API server. Without a route it takes the first address of an
// interface that other machines can reach.
func (a *agent) findAddress() error {
	ips, err := a.route(context.Background(), a.server)
	if err == nil {
		a.found.Store(&foundAddress{ips: ips})
		return nil
	}
	present, interfacesErr := a.interfaces()
	for _, ip := range present {
		if ip.IsGlobalUnicast() {
			a.found.Store(&foundAddress{ips: []netip.Addr{ip}, guessed: true})
			return nil
		}
	}
	return errors.Join(err, interfacesErr)
}

// interfaceAddresses returns the node's interface addresses.
func interfaceAddresses() ([]netip.Addr, error) {
	addresses, err := net.InterfaceAddrs()
	var ips []netip.Addr
	for _, a := range addresses {
		if prefix, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(prefix.IP); ok {
				ips = append(ips, ip.Unmap())
			}
		}
	}
	return ips, err
}

// routeTo returns the source addresses of the routes to an API server. It sends no packet.
func routeTo(ctx context.Context, host string) ([]netip.Addr, error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := (&net.Dialer{Timeout: routeTimeout}).DialContext(ctx, "udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return []netip.Addr{conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")}, nil
}
