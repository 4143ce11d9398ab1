package handler_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// FuzzHTTPAnswer checks that only a bounded part of any answer of a probe's or handler's endpoint is read
// and kept, that redirects end, and that no other host is contacted.
func FuzzHTTPAnswer(f *testing.F) {
	const most, headers = 100, 64 << 10
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "")
	f.Add("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\n"+strings.Repeat("x", 200))
	f.Add("HTTP/1.1 301 Moved\r\nLocation: http://[::1]:1/x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")
	f.Add("HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/9.9 999\r\n\r\n")
	f.Add("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", headers/4)+"\r\n", "")
	f.Fuzz(func(t *testing.T, first, next string) {
		var read []*served
		runner, err := handler.New(handler.Config{Exec: execFunc(noExec), MaxOutput: most, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			if host, _, err := net.SplitHostPort(address); err != nil || host != "192.0.2.1" {
				t.Errorf("%q is connected to", address)
			}
			text := first
			if len(read) > 0 {
				text = next
			}
			read = append(read, &served{Reader: strings.NewReader(text)})
			return read[len(read)-1], nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := runner.Run(t.Context(), handler.Request{
			Container: "app", PodIP: "192.0.2.1", Handler: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}},
		})
		if len(result.Output) > most || len(read) > 20 || err == nil && result.StatusCode < 100 {
			t.Errorf("%d bytes, %d connections, status %d, %v", len(result.Output), len(read), result.StatusCode, err)
		}
		for _, conn := range read {
			if conn.read > headers+most || !conn.closed {
				t.Errorf("%d bytes of an answer are read, closed: %t", conn.read, conn.closed)
			}
		}
	})
}

// A served connection sends a text, and counts the bytes that are read.
type served struct {
	net.Conn
	io.Reader
	read   int
	closed bool
}

func (s *served) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	s.read += n
	return n, err
}

func (s *served) Write(b []byte) (int, error) { return len(b), nil }

func (s *served) Close() error {
	s.closed = true
	return nil
}
