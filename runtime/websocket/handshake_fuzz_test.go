package websocket

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// FuzzHandshake: whatever a client requests and a server responds, a connection becomes a WebSocket only if both use one
// protocol, and the stored part of a rejection is bounded.
func FuzzHandshake(f *testing.F) {
	const ask = "GET /x HTTP/1.1\r\nHost: n\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Protocol: a, b\r\n\r\n"
	f.Add(ask, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
	f.Add(strings.Replace(ask, "13", "12", 1), "HTTP/1.1 403 Forbidden\r\nContent-Length: 99999999999\r\n\r\nno")
	f.Add("POST / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n")
	f.Fuzz(func(t *testing.T, question, answer string) {
		accepts(t, question)
		if _, err := dials(answer); err == nil {
			t.Error("an answer that cannot know the key is taken for a WebSocket")
		} else if refused, ok := errors.AsType[*RefusedError](err); ok && len(refused.Text) > maxRefusal {
			t.Errorf("%d bytes of a refusal are kept", len(refused.Text))
		}
	})
}

func accepts(t *testing.T, question string) {
	reader := bufio.NewReader(strings.NewReader(question))
	r, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	conn := &recorded{}
	ws, protocol, err := Accept(conn, reader, r, "b", "c")
	switch answered := conn.sent.String(); {
	case (err == nil) != (ws != nil) || (err == nil) != strings.HasPrefix(answered, "HTTP/1.1 101 "):
		t.Errorf("%v, and the answer is %q", err, answered)
	case err == nil && (protocol != "b" && protocol != "c" || !Is(r)):
		t.Errorf("protocol is %q", protocol)
	case strings.Count(answered, "\r\n\r\n") != 1 && err == nil:
		t.Errorf("the answer has more than a header: %q", answered)
	}
}

func dials(answer string) (*Conn, error) {
	r, err := http.NewRequest("GET", "http://n/", nil)
	if err != nil {
		return nil, err
	}
	ws, _, err := Dial(&recorded{Reader: strings.NewReader(answer)}, r, "b")
	return ws, err
}

// A recorded connection has the bytes that were sent.
type recorded struct {
	net.Conn
	io.Reader
	sent bytes.Buffer
}

func (c *recorded) Read(b []byte) (int, error)  { return c.Reader.Read(b) }
func (c *recorded) Write(b []byte) (int, error) { return c.sent.Write(b) }
func (c *recorded) Close() error                { return nil }
