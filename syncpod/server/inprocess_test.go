package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// A handler of the embedder's own process serves streams at any URL. A stream that the caller leaves ends the handler.
func TestHandlerTransport(t *testing.T) {
	for _, url := range []string{"http://no-such-host/exec/1", "https://no-such-host/exec/1"} {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			transport := server.HandlerTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
				_, _ = io.Copy(conn, rw) // until the caller leaves
				ended = true
			}))
			r := httptest.NewRequest("POST", url, nil).WithContext(t.Context())
			r.RequestURI = ""
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "SPDY/3.1")
			resp := must.Get(transport.RoundTrip(r))(t)
			conn := resp.Body.(io.ReadWriteCloser)
			got := make([]byte, 4)
			must.Get(io.WriteString(conn, "ping"))(t)
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
				t.Errorf("%s: %q, %v", url, got, err)
			}
			if synctest.Wait(); ended {
				t.Errorf("%s: the handler ended before the caller left", url)
			}
			conn.Close()
			if synctest.Wait(); !ended {
				t.Errorf("%s: the handler waits for a caller that has left", url)
			}
		})
	}
}

// A handler that answers with an error answers the caller of the API.
func TestHandlerTransportRefuses(t *testing.T) {
	own := &ownBackend{url: "http://local/exec/1"}
	streams := must.Get(server.NewStreams(server.StreamsConfig{Runtime: own, Pods: own, Transport: server.HandlerTransport(http.NotFoundHandler())}))(t)
	r := httptest.NewRequest("POST", "/exec/shop/web/app?command=date&output=1", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "SPDY/3.1")
	w := httptest.NewRecorder()
	if streams.ServeHTTP(w, r); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "404 page not found") {
		t.Errorf("%d %s, want the handler's answer", w.Code, w.Body)
	}
}

// A backend without a streaming server: a handler of the same process serves the streams. Here it speaks for itself;
// streaming.NewServer of k8s.io/cri-streaming makes a handler of functions that speaks SPDY and WebSocket.
func ExampleHandlerTransport() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			log.Print(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	})
	own := &ownBackend{url: "http://local/exec/1"} // any host
	streams, err := server.NewStreams(server.StreamsConfig{Runtime: own, Pods: own, Transport: server.HandlerTransport(handler)})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(streams)
	defer web.Close()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", web.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /exec/shop/web/app?command=date&output=1 HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	status := make([]byte, len("HTTP/1.1 101 Switching Protocols"))
	if _, err := io.ReadFull(conn, status); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(status))
	// Output: HTTP/1.1 101 Switching Protocols
}
