package server

import (
	"bufio"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/websocket"
)

// FuzzTranslate checks that for any data of a runtime over SPDY, and of a caller over a WebSocket, the translation
// ends when both have ended, stores a bounded status, and sends no more than it has received.
func FuzzTranslate(f *testing.F) {
	const success = "\x00\x00\x00\x01\x00\x00\x00\x14" + `{"status":"Success"}`
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x02hi"+success), []byte("\x82\x83\x00\x00\x00\x00\x00hi"))
	f.Add([]byte("\x00\x00\x00\x01\x01\x00\x00\x01{"), []byte("\x82\x82\x00\x00\x00\x00\xff\x00"))
	f.Add([]byte("\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x02"+success), []byte("\x89\x80\x00\x00\x00\x00\x88\x80\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x01\x00\xff\xff\xff"+strings.Repeat("[", 1000)), []byte("\x82\x81\x00\x00\x00\x00\x04"))
	f.Fuzz(func(t *testing.T, runtime, caller []byte) {
		const kinds, perMessage = 5, 32
		theirs, ours := &fed{Reader: strings.NewReader(string(runtime))}, &fed{Reader: strings.NewReader(string(caller))}
		c := &translation{
			runtime: spdy.Client(theirs), conn: ours, streams: map[byte]uint32{}, channels: map[uint32]byte{},
		}
		for channel := range byte(kinds) {
			stream := must.Get(c.runtime.Open(map[string]string{"streamtype": "any"}))(t)
			c.streams[channel], c.channels[stream] = stream, channel
		}
		r := httptest.NewRequest("GET", "/", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "a", "Sec-WebSocket-Protocol": closeProtocol,
		} {
			r.Header.Set(name, value)
		}
		var err error
		if c.caller, _, err = websocket.Accept(ours, bufio.NewReader(ours), r, closeProtocol); err != nil {
			t.Fatal(err)
		}
		opened, accepted := theirs.sent.Load(), ours.sent.Load()
		c.run()
		if len(c.status) > maxStatus {
			t.Errorf("a status of %d bytes is kept", len(c.status))
		}
		for name, sent := range map[string][3]int64{
			"runtime": {theirs.sent.Load() - opened, int64(len(caller)), int64(len(runtime))}, "caller": {ours.sent.Load() - accepted, int64(len(runtime)), int64(len(caller))},
		} {
			if most := perMessage * (1 + sent[1] + sent[2]); sent[0] > most {
				t.Errorf("the %s is sent %d bytes for %d of the other end and %d of its own", name, sent[0], sent[1], sent[2])
			}
		}
	})
}

// A fed connection has the bytes of a reader, and counts those that are sent.
type fed struct {
	net.Conn
	io.Reader
	sent atomic.Int64
}

func (f *fed) Read(b []byte) (int, error) { return f.Reader.Read(b) }

func (f *fed) Write(b []byte) (int, error) {
	f.sent.Add(int64(len(b)))
	return len(b), nil
}

func (f *fed) Close() error                     { return nil }
func (f *fed) SetReadDeadline(time.Time) error  { return nil }
func (f *fed) SetWriteDeadline(time.Time) error { return nil }
func (f *fed) SetDeadline(time.Time) error      { return nil }
