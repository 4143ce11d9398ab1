package critest

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// An agent in another process reaches the streams at the address of the listener, which ends with the runtime.
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
	url, err := rt.offer(func(v *visit) { _, _ = io.WriteString(v.Conn, "HTTP/1.0 204 No Content\r\n\r\n") })
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("%s: %s, want the stream's answer", url, resp.Status)
	}
	rt.Close()
	if _, err := lis.Accept(); err == nil {
		t.Error("the listener is open after the end of the runtime")
	}
	if err := rt.ServeStreams(lis); err == nil {
		t.Error("a closed runtime serves streams")
	}
}
