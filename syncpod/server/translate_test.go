package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/cri"
)

// silent is a streaming server that takes a connection, and then says nothing.
type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }() // until the other end is closed
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Body: near,
		Header: http.Header{"Upgrade": {spdy.Protocol}, protocolHeader: {processProtocol}},
	}, nil
}

// TestRuntimeThatAcceptsNoStream is given up after as long as a kubelet waits for streams.
func TestRuntimeThatAcceptsNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Agent: idle{}, Client: new(cri.Client), StreamTransport: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/attach/default/web/app?output=1", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			r.Header.Set(name, value)
		}
		began := time.Now()
		err = s.translate(httptest.NewRecorder(), r, "http://runtime/attach/1", streams{stdout: true})
		var status *statusError
		if took := time.Since(began); !errors.As(err, &status) || status.code != http.StatusBadGateway || took != 30*time.Second {
			t.Errorf("%v after %v, want 502 after 30s", err, took)
		}
	})
}
