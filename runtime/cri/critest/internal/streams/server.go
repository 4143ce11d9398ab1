package streams

import (
	"bufio"
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/podsync/podsync/runtime/websocket"
)

// Host is the host in the URLs of a Server without an address. A client that dials it prints what it needs.
const Host = "critest-needs-DialStream-or-ServeStreams.invalid"

// A Stream serves the client that connects to one URL. It returns when the stream has ended.
type Stream func(*visit)

// A visit is a request for a stream, with its connection.
type visit struct {
	net.Conn
	read *bufio.Reader
	*http.Request
	ctx context.Context // ends with the runtime, and when the runtime restarts
}

// accept upgrades the connection to a WebSocket.
func (v *visit) accept(protocols ...string) (*websocket.Conn, error) {
	ws, _, err := websocket.Accept(v.Conn, v.read, v.Request, protocols...)
	return ws, err
}

// A Server serves each stream once, at its own URL. Its methods may be called concurrently. It does not use
// http.Server, because programs with an in-memory runtime would have to link it.
type Server struct {
	mu      sync.Mutex
	waiting map[string]Stream // by path, until a client connects
	address string
}

// Offer returns a URL at which a stream can be requested once. The ID must be unique.
func (s *Server) Offer(id string, st Stream) (url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[string]Stream{}
	}
	s.waiting["/"+id] = st
	return "http://" + cmp.Or(s.address, Host) + "/" + id
}

// Address returns the address that SetAddress has set.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// SetAddress makes further URLs contain an address at which other processes reach the server.
func (s *Server) SetAddress(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = address
}

// Forget invalidates all URLs to which no client has connected.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.waiting)
}

// Serve serves one stream on each connection until life ends, and then closes the listener. epoch returns the context
// that ends a new stream.
func (s *Server) Serve(life context.Context, lis net.Listener, epoch func() context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(life, func() { lis.Close() })()
	for {
		conn, err := lis.Accept()
		if err != nil {
			return // the listener was closed
		}
		ctx := epoch()
		running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.serve(ctx, conn)
		})
	}
}

func (s *Server) serve(ctx context.Context, conn net.Conn) {
	read := bufio.NewReader(conn)
	req, err := http.ReadRequest(read)
	if err != nil {
		return // the client does not request a stream
	}
	s.mu.Lock()
	st := s.waiting[req.URL.Path]
	delete(s.waiting, req.URL.Path)
	s.mu.Unlock()
	if st == nil {
		_ = websocket.Refuse(conn, http.StatusNotFound, "there is no such stream, or not any more") // the client may have disconnected
		return
	}
	st(&visit{conn, read, req, ctx})
}
