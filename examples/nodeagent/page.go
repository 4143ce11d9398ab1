package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/page"
)

// checkPage checks the value of -page.
func checkPage(address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if _, portErr := net.LookupPort("tcp", port); err != nil || portErr != nil {
		return fmt.Errorf("-page %s: want an address and a port, such as 127.0.0.1:8080", address)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("-page %s: want a loopback address, such as 127.0.0.1:8080: the page has no authentication. From another machine use ssh -L 8080:127.0.0.1:8080", address)
	}
	return nil
}

// servePage serves the page until ctx ends, if -page is set.
func servePage(ctx context.Context, o options, agent *agent.Agent, view *page.Page, say func(string, ...any)) error {
	if view == nil {
		<-ctx.Done()
		return nil
	}
	listener, err := net.Listen("tcp", o.page)
	if err == nil {
		say("Page: http://%s", listener.Addr())
		err = page.Serve(ctx, listener, view.Handler(agent))
	}
	if err != nil {
		return &failure{exitUsage, "Give -page an address that is free.", fmt.Errorf("-page %s: %w", o.page, err)}
	}
	return nil
}
