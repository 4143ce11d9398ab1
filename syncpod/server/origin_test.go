package server_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/timeline"
)

// A browser adds its user's certificate to the requests of any page. Those that act are rejected, whatever the protocol
// of a stream is; programs and proxies, which pass the headers of browsers on, are not.
func TestPagesOfOtherSitesAreRejected(t *testing.T) {
	n := newNode(t, nil)
	own := &ownBackend{}
	streams := must.Get(server.NewStreams(server.StreamsConfig{Runtime: own, Pods: own}))(t)
	request := func(h http.Handler, method, path, protocol string, header http.Header) int {
		r := httptest.NewRequest(method, "https://node1:10250"+path, nil)
		r.Header = header.Clone()
		if protocol != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", protocol)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == 403 && (!strings.Contains(w.Body.String(), "another site") || strings.Contains(w.Body.String(), "evil")) {
			t.Errorf("%s %s: %q", method, path, w.Body)
		}
		return w.Code
	}
	acting := []struct{ method, path, protocol string }{
		{"POST", "/run/default/none/app?cmd=a", ""}, {"POST", "/checkpoint/default/none/app", ""}, {"POST", "/pods", ""}, {"PUT", "/pods", ""}, {"DELETE", "/none", ""},
	}
	var opening []struct{ method, path, protocol string }
	for _, path := range []string{"/exec/default/none/app?command=a&output=1", "/attach/default/none/uid/app?output=1", "/portForward/default/none?port=80"} {
		for _, protocol := range []string{"websocket", "WebSocket", "SPDY/3.1"} {
			for _, method := range []string{"GET", "POST"} {
				opening = append(opening, struct{ method, path, protocol string }{method, path, protocol})
			}
		}
	}
	for _, tt := range []struct {
		name     string
		header   http.Header
		rejected bool
	}{
		{"kubectl", http.Header{}, false},
		{"page of the node", http.Header{"Origin": {"https://node1:10250"}}, false},
		{"page of the node, new browser", http.Header{"Origin": {"https://node1:10250"}, "Sec-Fetch-Site": {"same-origin"}}, false},
		{"API server, for a console", http.Header{"Origin": {"https://console.example"}, "X-Forwarded-For": {"192.0.2.1"}}, false},
		{"page of another site", http.Header{"Origin": {"https://evil.example"}}, true},
		{"page of another port", http.Header{"Origin": {"https://node1"}}, true},
		{"page without an origin", http.Header{"Origin": {"null"}}, true},
		{"page of another site, new browser", http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, true},
		{"form of another site", http.Header{"Sec-Fetch-Site": {"cross-site"}}, true},
		{"page of another name of the site", http.Header{"Sec-Fetch-Site": {"same-site"}}, true},
	} {
		for _, r := range append(acting, opening...) {
			if code := request(n.handler, r.method, r.path, r.protocol, tt.header); (code == 403) != tt.rejected {
				t.Errorf("%s: %s %s %s: %d, rejected must be %v", tt.name, r.method, r.path, r.protocol, code, tt.rejected)
			}
		}
		for _, r := range opening {
			if code := request(streams, r.method, r.path, r.protocol, tt.header); (code == 403) != tt.rejected {
				t.Errorf("%s: Streams: %s %s %s: %d, rejected must be %v", tt.name, r.method, r.path, r.protocol, code, tt.rejected)
			}
		}
		if code := request(n.handler, "GET", "/pods", "", tt.header); code != 200 {
			t.Errorf("%s: GET /pods: %d", tt.name, code)
		}
	}
	if len(own.asks) != 0 {
		t.Errorf("streams were opened: %v", own.asks)
	}
}

// A browser runs no script that a container has printed, or put into the node's logs, and includes no answer in a page of
// another site. The page of the timeline has its own policy.
func TestBrowsersRunNothingThatAnswersRepeat(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "x.html"), []byte("<script>fetch('/run/default/web/app?cmd=a', {method: 'POST'})</script>"), 0o600))
	history := timeline.New(timeline.Config{})
	n := newNode(t, func(c *server.Config) { c.NodeLogs, c.Timeline = dir, history })
	n.run("web", "echo '<script>'; sleep infinity", isRunning)
	for _, path := range []string{"/logs/x.html", "/logs/", "/containerLogs/default/web/app", "/pods", "/explain/default/web", "/metrics/resource", "/stats/summary", "/healthz", "/none", "/timeline", "/timeline?format=trace"} {
		w := ask(n.handler, "GET", path)
		h := w.Header()
		policy := h.Get("Content-Security-Policy")
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		if page := path == "/timeline"; strings.Contains(policy, "sandbox") == page || strings.Contains(policy, "script-src") != page {
			t.Errorf("%s: the policy %q", path, policy)
		}
	}
}
