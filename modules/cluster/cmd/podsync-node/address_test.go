package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// E5: an address that was guessed without a network does not stay when there is one, and an address that changes later is
// followed. While there is no way to the API server, the last address holds.
func TestE5_AddressIsFollowed(t *testing.T) {
	guessed, first, second := netip.MustParseAddr("172.17.0.1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		a := &agent{route: func(context.Context, string) ([]netip.Addr, error) {
			switch minutes := int(time.Since(began).Minutes()); {
			case minutes < 1 || minutes == 2:
				return nil, errors.New("network is unreachable")
			case minutes < 3:
				return []netip.Addr{first}, nil
			}
			return []netip.Addr{second}, nil
		}}
		a.found.Store(&[]netip.Addr{guessed})
		ended := make(chan error)
		go func() { ended <- a.watchAddress(ctx) }()
		for i, want := range []netip.Addr{guessed, first, first, second} {
			time.Sleep(time.Duration(i)*time.Minute + 30*time.Second - time.Since(began))
			if got := a.addresses(); !slices.Equal(got, []netip.Addr{want}) {
				t.Errorf("after %v: %v, want %v", time.Since(began), got, want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// An address that was given is not looked for.
func TestGivenAddressIsKept(t *testing.T) {
	given := []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	a := &agent{options: options{ips: given}, route: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.8")}, nil
	}}
	if err := a.watchAddress(t.Context()); err != nil || !slices.Equal(a.addresses(), given) {
		t.Errorf("%v, %v, want %v", a.addresses(), err, given)
	}
}
