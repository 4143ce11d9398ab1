package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// E5: an address that was guessed without a network is replaced once there is a network, and an address that changes
// later is replaced too. While there is no route to the API server, the last address stays.
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
		}, interfaces: func() ([]netip.Addr, error) {
			if time.Since(began) < 3*time.Minute {
				return []netip.Addr{guessed, first}, nil
			}
			return []netip.Addr{guessed, second}, nil
		}}
		must.Do(t, a.findAddress())
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

// An address stays as long as an interface has it, even if the route to the API server changes: the server's name may
// have several records, and temporary IPv6 addresses are added and expire. The address also stays while the interfaces
// cannot be read.
func TestE5_AddressDoesNotFlap(t *testing.T) {
	first, second, third := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")
	var present []netip.Addr
	var unknown error
	asked := 0
	a := &agent{route: func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{[]netip.Addr{first, second, third}[(asked-1)%3]}, nil
	}, interfaces: func() ([]netip.Addr, error) { return present, unknown }}
	must.Do(t, a.findAddress())
	for _, step := range []struct {
		name    string
		present []netip.Addr
		unknown error
		want    netip.Addr
	}{
		{"all are there", []netip.Addr{first, second, third}, nil, first},
		{"all are there still", []netip.Addr{third, second, first}, nil, first},
		{"the interfaces are not known", nil, errors.New("no netlink"), first},
		{"the address has expired", []netip.Addr{second, third}, nil, second},
		{"the next one stays", []netip.Addr{second, third}, nil, second},
		{"the first one is back", []netip.Addr{first, second, third}, nil, second},
		{"only the last one is there", []netip.Addr{third}, nil, third},
	} {
		present, unknown = step.present, step.unknown
		a.checkAddress(t.Context())
		if got := a.addresses(); !slices.Equal(got, []netip.Addr{step.want}) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}

// The addresses of this machine include the loopback address.
func TestInterfaceAddresses(t *testing.T) {
	ips, err := interfaceAddresses()
	if err != nil || !slices.Contains(ips, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v, %v, want one to be 127.0.0.1", ips, err)
	}
}

// An address that an option sets is never replaced.
func TestGivenAddressIsKept(t *testing.T) {
	given := []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	a := &agent{options: options{ips: given}, route: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.8")}, nil
	}}
	if err := a.watchAddress(t.Context()); err != nil || !slices.Equal(a.addresses(), given) {
		t.Errorf("%v, %v, want %v", a.addresses(), err, given)
	}
}
