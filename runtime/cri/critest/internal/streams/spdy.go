package streams

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/websocket"
)

// ProtocolHeader is the header that names the protocol over SPDY.
const ProtocolHeader = "X-Stream-Protocol-Version"

func (v *visit) speaksSPDY() bool { return strings.EqualFold(v.Header.Get("Upgrade"), spdy.Protocol) }

// acceptSPDY accepts a request for a protocol over SPDY.
func (v *visit) acceptSPDY(protocol string) (*spdy.Conn, error) {
	if !slices.Contains(v.Header[ProtocolHeader], protocol) {
		err := fmt.Errorf("critest: of the protocols %q none is known", v.Header[ProtocolHeader])
		_ = websocket.Refuse(v.Conn, http.StatusForbidden, err.Error()) // the client may have disconnected
		return nil, err
	}
	_, err := fmt.Fprintf(v.Conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n", spdy.Protocol, ProtocolHeader, protocol)
	if err != nil {
		return nil, err
	}
	return spdy.Server(struct {
		*bufio.Reader
		io.WriteCloser
	}{v.read, v.Conn}), nil
}

// spdyStreams are a process's streams.
type spdyStreams struct {
	conn     *spdy.Conn
	streams  map[byte]uint32 // by channel
	channels map[uint32]byte // by stream
}

// channelOf returns the channel of a kind of stream.
func channelOf(kind string) (channel byte, known bool) {
	i := slices.Index([]string{Stdin: "stdin", Stdout: "stdout", Stderr: "stderr", Error: "error", Resize: "resize"}, kind)
	return byte(i), i >= 0
}

// acceptStreams waits until the client has opened all streams of a process.
func (v *visit) acceptStreams(n int) (carrier, error) {
	conn, err := v.acceptSPDY("v4.channel.k8s.io")
	if err != nil {
		return nil, err
	}
	s := &spdyStreams{conn, map[byte]uint32{}, map[uint32]byte{}}
	for len(s.streams) < n {
		m, err := conn.Read()
		if err != nil {
			return nil, err
		}
		if err := s.opened(m); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// opened accepts a stream of a known kind.
func (s *spdyStreams) opened(m spdy.Message) error {
	if m.Kind != spdy.Opened {
		return nil // before all streams are open, the server sends nothing
	}
	channel, known := channelOf(m.Header.Get("streamtype"))
	if !known || s.streams[channel] != 0 {
		return s.conn.Reset(m.Stream)
	}
	s.streams[channel], s.channels[m.Stream] = m.Stream, channel
	return s.conn.Accept(m.Stream)
}

// Read returns the data of a stream, and its end, as messages of v5.channel.k8s.io.
func (s *spdyStreams) Read() ([]byte, error) {
	for {
		m, err := s.conn.Read()
		if err != nil {
			return nil, err
		}
		channel, known := s.channels[m.Stream]
		switch {
		case !known:
		case m.Kind == spdy.Data:
			return append([]byte{channel}, m.Data...), nil
		case m.Kind == spdy.Closed, m.Kind == spdy.Reset:
			return []byte{Close, channel}, nil
		}
	}
}

// Write sends a message on the stream of its channel.
func (s *spdyStreams) Write(message ...[]byte) error {
	all := slices.Concat(message...)
	return s.conn.Write(s.streams[all[0]], all[1:])
}

// Close closes all streams.
func (s *spdyStreams) Close() error { return s.conn.Close() }
