package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/websocket"
)

const (
	// processProtocol is the protocol of a process's streams over SPDY.
	processProtocol = "v4.channel.k8s.io"
	// closeProtocol is the WebSocket protocol that can signal the input's end. The streaming
	// runtime servers do not support it.
	closeProtocol = "v5.channel.k8s.io"
	// tunnelPrefix is the prefix of the protocols that tunnel SPDY in WebSocket messages.
	tunnelPrefix = spdy.Protocol + "+"
	// protocolHeader is the header of the protocol over SPDY.
	protocolHeader = "X-Stream-Protocol-Version"
)

// endTime is how long a caller may take to disconnect after the stream's end.
const endTime = 10 * time.Second

// offers returns the protocols of a caller that requests a WebSocket.
func offers(r *http.Request) (protocols []string) {
	if !isWebSocket(r) {
		return nil
	}
	for _, values := range r.Header["Sec-Websocket-Protocol"] {
		for offer := range strings.SplitSeq(values, ",") {
			protocols = append(protocols, strings.TrimSpace(offer))
		}
	}
	return protocols
}

// tunnelled returns the protocols that a caller offers for SPDY within a WebSocket.
func tunnelled(r *http.Request) (protocols []string) {
	for _, offer := range offers(r) {
		if protocol, ok := strings.CutPrefix(offer, tunnelPrefix); ok {
			protocols = append(protocols, protocol)
		}
	}
	return protocols
}

// upgrade requests a SPDY connection with one of these protocols from the runtime. It ends with the
// request's context. A request that cannot become a WebSocket is rejected before, so that it has no
// effect.
func (s *streamer) upgrade(r *http.Request, location string, protocols ...string) (conn io.ReadWriteCloser, protocol string, err error) {
	if err := websocket.Check(r); err != nil {
		return nil, "", &statusError{http.StatusBadRequest, err}
	}
	target, err := streamURL(location)
	if err != nil {
		return nil, "", err
	}
	req := &http.Request{Method: http.MethodPost, URL: target, Host: target.Host, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {spdy.Protocol}, protocolHeader: protocols,
	}}
	resp, err := s.transport.RoundTrip(req.WithContext(r.Context()))
	if err != nil {
		return nil, "", s.unreachable(r, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, "", s.refusal(r, resp)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	protocol = resp.Header.Get(protocolHeader)
	if !ok || !slices.Contains(protocols, protocol) {
		resp.Body.Close()
		return nil, "", s.unreachable(r, errors.New("it does not speak what it was asked to"))
	}
	context.AfterFunc(r.Context(), func() { conn.Close() })
	return conn, protocol, nil
}

// refusal returns the runtime's error response as an error.
func (s *streamer) refusal(r *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest {
		return s.unreachable(r, errNoStream)
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // as much as can be read
	code := resp.StatusCode
	if code < http.StatusBadRequest {
		code = http.StatusBadGateway
	}
	return &statusError{code, errors.New(foreign.CutText(strings.TrimSpace(string(text)), maxRefusal))}
}

// accept upgrades the caller's connection to a WebSocket with an offered protocol. If that is impossible, it sends
// the error response and returns nil.
func (s *streamer) accept(w http.ResponseWriter, r *http.Request, protocol string) (*websocket.Conn, net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	sent := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	conn = s.hold(r.Context(), conn)
	ws, _, err := websocket.Accept(conn, bufio.NewReader(io.MultiReader(sent, conn)), r, protocol)
	if err != nil {
		conn.Close()
		return nil, nil, nil
	}
	return ws, conn, nil
}

// announceEnd sends the stream's end to the caller, and disconnects the caller after endTime. Until then the
// connection is read: if a connection is closed with unread data, the last data sent on it is lost.
func announceEnd(ws *websocket.Conn, conn net.Conn) {
	_ = ws.CloseWrite() // it fails if the caller has disconnected
	_ = conn.SetReadDeadline(time.Now().Add(endTime))
}

// tunnel copies SPDY between the caller's messages and a connection to the runtime, in both
// directions, until one of them ends.
func (s *streamer) tunnel(w http.ResponseWriter, r *http.Request, location string) error {
	upstream, protocol, err := s.upgrade(r, location, tunnelled(r)...)
	if err != nil {
		return err
	}
	defer upstream.Close()
	ws, conn, err := s.accept(w, r, tunnelPrefix+protocol)
	if ws == nil {
		return err
	}
	var unwrapping sync.WaitGroup
	unwrapping.Go(func() {
		defer conn.Close() // also unblocks a writer
		defer upstream.Close()
		unwrap(upstream, ws)
	})
	_, _ = io.Copy(messages{ws}, upstream) // until one of them ends
	upstream.Close()
	announceEnd(ws, conn)
	unwrapping.Wait()
	return nil
}

// unwrap writes message contents until the caller disconnects. Data that the runtime no longer
// reads is lost.
func unwrap(runtime io.Writer, ws *websocket.Conn) {
	for {
		piece, _, _, err := ws.ReadPiece()
		if err != nil {
			return
		}
		_, _ = runtime.Write(piece)
	}
}

// messages is a Writer that sends each Write as a message.
type messages struct{ ws *websocket.Conn }

func (m messages) Write(b []byte) (int, error) {
	if err := m.ws.Write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
