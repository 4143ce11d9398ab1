package main

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// E5: an address that was guessed without a network does not stay when there is one.
func TestE5_GuessedAddress(t *testing.T) {
	right, other := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("172.17.0.1")
	for name, tt := range map[string]struct {
		taken netip.Addr
		want  string
	}{
		"it is another": {other, "[192.0.2.7], and was taken for [172.17.0.1]"},
		"it is right":   {right, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := &agent{guessed: true, route: func(string) ([]netip.Addr, error) {
					if time.Since(began) < time.Minute {
						return nil, errors.New("network is unreachable")
					}
					return []netip.Addr{right}, nil
				}}
				a.ips = []netip.Addr{tt.taken}
				err := a.watchAddress(t.Context())
				if got := time.Since(began); got != time.Minute {
					t.Errorf("it ended after %v, want %v", got, time.Minute)
				}
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			})
		})
	}
}
