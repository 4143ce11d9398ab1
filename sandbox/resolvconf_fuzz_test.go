package sandbox_test

import (
	"strings"
	"testing"

	"github.com/podsync/podsync/sandbox"
)

// Whatever a resolv.conf says, each server, search and option is one of its words.
func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a. b\noptions ndots:5 ndots:2\n")
	f.Add("search .\noptions\n#\xff")
	f.Fuzz(func(t *testing.T, text string) {
		d := sandbox.ParseResolvConf(text)
		for _, list := range [][]string{d.Servers, d.Searches, d.Options} {
			for _, word := range list {
				if word == "" || len(strings.Fields(word)) != 1 || !strings.Contains(text, word) {
					t.Errorf("%q has %q", text, word)
				}
			}
		}
	})
}
