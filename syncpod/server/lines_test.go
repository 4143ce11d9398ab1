package server_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/server"
)

// refusing authenticates each user by name, and authorizes all users except dan.
type refusing struct{ named }

func (refusing) Authorize(_ context.Context, a server.Attributes) (bool, string, error) {
	return a.User.Name != "dan", "", nil
}

// TestAdmittedUsersCannotFillTheLog checks that rejected, failed and non-streaming requests have one log line for
// each user and interval, with the number of the omitted requests.
func TestAdmittedUsersCannotFillTheLog(t *testing.T) {
	var log ledger
	who := refusing{}
	n := newNode(t, func(c *server.Config) {
		c.Authenticator, c.Authorizer, c.Configz = who, who, map[string]string{}
		c.Log = log.logger(t)
	})
	n.run("web", "echo hello; sleep infinity", isRunning)
	n.fail(critest.ListPodSandboxStats, "no figures", faults.Always)
	n.fail(critest.ListContainerStats, "no figures", faults.Always)
	begin := time.Now()
	ask := func(user, path string) {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("User", user)
		n.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	const times = 50
	for range times {
		for _, path := range []string{"/pods", "/runningpods/", "/explain/default/web", "/configz", "/containerLogs/default/web/app", "/stats/summary"} {
			ask("ann", path)
			ask("dan", path)
		}
		n.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/pods", nil))
	}
	most := 1 + int(time.Since(begin)/(10*time.Second)) + 1
	for words, least := range map[string]int{
		`"path"="/pods"`: 1, `"path"="/runningpods/"`: 1, `"path"="/explain/default/web"`: 1, `"path"="/configz"`: 1, "Log is read": 1,
		"Request is forbidden": 1, "Some figures of usage cannot be read": 1,
	} {
		if got := log.countAll(words); got < least || got > 2*most {
			t.Errorf("%d lines with %s for %d requests, want %d to %d", got, words, times, least, 2*most)
		}
	}
	for _, words := range []string{`"user"="ann" "uid"="" "address"="192.0.2.1:1234"`, `"user"="dan" "uid"="" "address"="192.0.2.1:1234"`} {
		if log.countAll(words) == 0 {
			t.Errorf("no line has %s", words)
		}
	}
}
