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
	// addressInterval is the time between two looks at the way to the API server.
	addressInterval = 10 * time.Second
	// routeTimeout bounds such a look, which resolves the name of the server.
	routeTimeout = 5 * time.Second
)

// addresses returns the addresses of the node: those of --node-ip, or the one on the way to the API server.
func (a *agent) addresses() []netip.Addr {
	if found := a.found.Load(); found != nil {
		return *found
	}
	return a.ips
}

// watchAddress follows the address on the way to the API server until ctx ends, if no other was given: it may have been guessed
// while there was no way, and DHCP may give the node another one. While there is no way, the last address holds.
func (a *agent) watchAddress(ctx context.Context) error {
	if len(a.ips) > 0 {
		return nil
	}
	for {
		if ips, err := a.route(ctx, a.server); err == nil && !slices.Equal(ips, a.addresses()) {
			a.log.Info("The address of the node has changed", "from", a.addresses(), "to", ips)
			a.found.Store(&ips)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(addressInterval):
		}
	}
}

// addressOf returns the address of the node on the way to an API server. If there is no way to
// it now, it is guessed: the first of an interface that others can reach.
func addressOf(host string, route func(context.Context, string) ([]netip.Addr, error)) ([]netip.Addr, error) {
	ips, err := route(context.Background(), host)
	if err == nil {
		return ips, nil
	}
	addresses, interfacesErr := net.InterfaceAddrs()
	for _, a := range addresses {
		prefix, ok := a.(*net.IPNet)
		if !ok || !prefix.IP.IsGlobalUnicast() {
			continue
		}
		if ip, ok := netip.AddrFromSlice(prefix.IP); ok {
			return []netip.Addr{ip.Unmap()}, nil
		}
	}
	return nil, errors.Join(err, interfacesErr)
}

// routeTo returns the address of the node on the way to an API server. Nothing is sent.
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
	return []netip.Addr{conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()}, nil
}
