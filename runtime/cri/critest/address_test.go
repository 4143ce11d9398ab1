package critest

import (
	"net/netip"
	"slices"
	"testing"
)

// The next address is the lowest free one, however often it was used before.
func TestAddresses(t *testing.T) {
	a := newAddresses([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/29"), netip.MustParsePrefix("fd00::/64")})
	next := func() []string {
		ips, err := a.pick()
		if err != nil {
			return nil
		}
		a.take(ips)
		return ips
	}
	want := func(v4, v6 string) {
		t.Helper()
		if got := next(); !slices.Equal(got, []string{v4, v6}) {
			t.Errorf("got %v, want %s and %s", got, v4, v6)
		}
	}
	want("10.1.0.2", "fd00::2")
	want("10.1.0.3", "fd00::3")
	want("10.1.0.4", "fd00::4")
	a.release([]string{"10.1.0.3"})
	a.take([]string{"10.1.0.2", "no address"}) // a test gave the address to another sandbox, too
	a.release([]string{"10.1.0.2", "no address"})
	a.release([]string{"10.1.0.1", "10.9.9.9"}) // no sandbox had the second address
	want("10.1.0.3", "fd00::5")
	want("10.1.0.5", "fd00::6")
	want("10.1.0.6", "fd00::7")
	want("10.1.0.7", "fd00::8")
	if got := next(); got != nil {
		t.Errorf("got %v of a prefix that has no more", got)
	}
}
