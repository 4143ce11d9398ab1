package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// The health of the agent is answered without TLS, and nothing else is.
func TestHealth(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- health(ctx, lis, logr.Discard()) }()
	for path, want := range map[string]string{"/healthz": "200 OK", "/healthz/ping": "200 OK", "/pods": "404 Not Found", "/configz": "404 Not Found"} {
		resp, err := http.Get("http://" + lis.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Status != want || want == "200 OK" && string(text) != "ok" {
			t.Errorf("%s: %s %q %v, want %s", path, resp.Status, text, err, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An address that another process has is tried again, and does not end the agent.
func TestHealthWaitsForItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { Health(ctx, "192.0.2.1:10248", logr.Discard()); close(ended) }()
		time.Sleep(time.Minute)
		select {
		case <-ended:
			t.Error("it has ended")
		default:
		}
		cancel()
		<-ended
	})
}
