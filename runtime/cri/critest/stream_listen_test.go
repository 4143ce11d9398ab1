package critest

import (
	"net"
	"net/http"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// An agent in another process reaches the streams at the listener's address. The listener is closed with the runtime.
func TestServeStreams(t *testing.T) {
	rt, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.ServeStreams(lis); err != nil {
		t.Fatal(err)
	}
	url, err := rt.offer(streams.Ports(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%s: %s, want the stream, which rejects a request without an upgrade", url, resp.Status)
	}
	rt.Close()
	if _, err := lis.Accept(); err == nil {
		t.Error("the listener is open after the end of the runtime")
	}
	if err := rt.ServeStreams(lis); err == nil {
		t.Error("a closed runtime serves streams")
	}
}
