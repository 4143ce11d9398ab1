package websocket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// pair returns both ends of a WebSocket over a real server.
func pair(t *testing.T, protocols ...string) (client, server *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, read := hijack(t, w)
		ws, _, err := Accept(conn, read, r, "b", "a")
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	}))
	t.Cleanup(web.Close)
	client, protocol := dial(t, web.URL, protocols...)
	if protocol != "b" {
		t.Errorf("the protocol is %q", protocol)
	}
	server = <-accepted
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func hijack(t *testing.T, w http.ResponseWriter) (net.Conn, *bufio.Reader) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
	}
	return conn, buffered.Reader
}

func dial(t *testing.T, url string, protocols ...string) (*Conn, string) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	req := must.Get(http.NewRequest("GET", url, nil))(t)
	ws, protocol, err := Dial(conn, req, protocols...)
	must.Do(t, err)
	return ws, protocol
}

func TestMessages(t *testing.T) {
	client, server := pair(t, "a", "b")
	for _, size := range []int{0, 1, maxControl, maxControl + 1, 1<<16 - 1, 1 << 16, maxMessage} {
		want := bytes.Repeat([]byte("x"), size)
		for _, way := range [][2]*Conn{{client, server}, {server, client}} {
			sent := make(chan error, 1)
			go func() { sent <- way[0].Write(want[:size/2], want[size/2:]) }()
			got, err := way[1].Read()
			if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d came, %v", size, len(got), err)
			}
		}
	}
	if err := client.Write(make([]byte, maxMessage+1)); err == nil {
		t.Error("a message that is too long was sent")
	}
	must.Do(t, client.write(opPing, []byte("there?")))
	must.Do(t, client.Close())
	if _, err := server.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := client.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed one is written to: %v", err)
	}
	must.Do(t, client.Close())
}

func TestPing(t *testing.T) {
	near, far := net.Pipe()
	c := newConn(near, bufio.NewReader(near), false)
	go func() {
		_, _ = far.Write(appendFrame(appendFrame(nil, opPing, []byte("there?"), true), opBinary, []byte("a"), true)) // as the reader notices
	}()
	read := make(chan string, 1)
	go func() {
		message, err := c.Read()
		read <- fmt.Sprint(string(message), err)
	}()
	pong, err := readFrame(far, maxMessage, false)
	if err != nil || pong.op != opPong {
		t.Errorf("%+v, %v, want op %v and no error", pong, err, opPong)
	}
	if data, err := pong.read(far, nil, pong.left); err != nil || string(data) != "there?" {
		t.Errorf("%q, %v, want %q and no error", data, err, "there?")
	}
	if got := <-read; got != "a<nil>" {
		t.Errorf("%q, want %q", got, "a<nil>")
	}
}

// TestCloseWrite checks that an end that has closed its direction still receives the data of the other end.
func TestCloseWrite(t *testing.T) {
	client, server := pair(t, "a", "b")
	for range 2 {
		if err := server.CloseWrite(); err != nil {
			t.Error(err)
		}
	}
	if err := server.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is written to: %v", err)
	}
	must.Do(t, errors.Join(client.write(opPing, []byte("there?")), client.Write([]byte("a"))))
	if got, err := server.Read(); err != nil || string(got) != "a" {
		t.Errorf("%q, %v, want %q and no error", got, err, "a")
	}
	if _, err := client.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	must.Do(t, server.Close())
	if _, err := client.Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after Close: %v, want the end of the connection and no more", err)
	}
}

func TestFragments(t *testing.T) {
	text := "\x02\x81\x00\x00\x00\x00a" + "\x89\x80\x00\x00\x00\x00" + "\x00\x81\x01\x00\x00\x00c" + "\x80\x81\x00\x00\x00\x00c"
	near, far := net.Pipe()
	go io.Copy(io.Discard, far) //nolint:errcheck // the answer to a ping
	c := newConn(near, bufio.NewReader(strings.NewReader(text)), false)
	if got, err := c.Read(); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v, want %q and no error", got, err, "abc")
	}
	far.Close()
}

// A message arrives in pieces: memory is used for bytes that arrive, and not for the announced length.
func TestPieces(t *testing.T) {
	long := strings.Repeat("abcdefg", maxMessage/7)
	half := len(long) / 2
	text := appendFrame(nil, opText, []byte(long[:half]), true)
	text[0] &^= 0x80 // not the last frame
	rest := appendFrame(nil, opContinue, []byte(long[half:]), true)
	text = appendFrame(append(text, rest...), opBinary, []byte("short"), true)
	near, far := net.Pipe()
	defer far.Close()
	c := newConn(near, bufio.NewReader(bytes.NewReader(text)), false)
	var got strings.Builder
	for first, last := true, false; !last; first = false {
		piece, begins, ends, err := c.ReadPiece()
		if err != nil || begins != first || len(piece) > maxPiece {
			t.Fatalf("%d bytes, first %v, error %v, want at most %d, %v, no error", len(piece), begins, err, maxPiece, first)
		}
		got.Write(piece)
		last = ends
	}
	if got.String() != long {
		t.Errorf("%d bytes, or other ones, want %d", got.Len(), len(long))
	}
	if piece, first, last, err := c.ReadPiece(); err != nil || string(piece) != "short" || !first || !last {
		t.Errorf("%q, %v, %v, %v, want a whole message", piece, first, last, err)
	}
	if held := cap(c.piece); held > 2*maxPiece {
		t.Errorf("%d bytes are kept", held)
	}
}

func TestRefusal(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(w, "not you", http.StatusForbidden)
			return
		}
		conn, read := hijack(t, w)
		defer conn.Close()
		if _, _, err := Accept(conn, read, r, "a"); err == nil {
			t.Error("it was accepted")
		}
	}))
	defer web.Close()
	for path, want := range map[string]string{"/no": "403 Forbidden: not you", "/": `400 Bad Request: websocket: none of the protocols ["a"] is offered`} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(web.URL, "http://"))
		must.Do(t, err)
		req := must.Get(http.NewRequest("GET", web.URL+path, nil))(t)
		_, _, err = Dial(conn, req, "b")
		var refused *RefusedError
		if !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	resp := must.Get(http.Get(web.URL))(t)
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("a request for something else: %d", resp.StatusCode)
	}
}

// FuzzRead reads anything: it ends with messages of bounded size, or an error.
func FuzzRead(f *testing.F) {
	f.Add(string(appendFrame(nil, opBinary, []byte("hello"), true)))
	f.Add("\x02\x81\x00\x00\x00\x00a\x80\x81\x00\x00\x00\x00c")
	f.Add("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add("\x88\x80\x00\x00\x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		near, far := net.Pipe()
		defer far.Close()
		go io.Copy(io.Discard, far) //nolint:errcheck // answers to pings
		c := newConn(near, bufio.NewReader(strings.NewReader(text)), false)
		for {
			message, err := c.Read()
			if err != nil {
				return
			}
			if len(message) > maxMessage {
				t.Fatalf("%d bytes, want at most %v", len(message), maxMessage)
			}
		}
	})
}
