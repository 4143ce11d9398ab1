package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnections bounds the connections of all peers, admitted ones included.
	maxConnections = 2048
	// strangerLife is how long a connection may last on which no request was admitted.
	strangerLife = 30 * time.Second
	// strangerRequests is how many requests may be made on it.
	strangerRequests = 100
	// answerTimeout bounds the answer to a request that is not admitted.
	answerTimeout = 15 * time.Second
	// admittedTTL is how long a credential with which a request was admitted passes the limits
	// of strangers.
	admittedTTL = 5 * time.Minute
	// maxBody is the size of the largest body of a request, in bytes. No path needs one.
	maxBody = 64 << 10
)

// A credential is the hash of a token or of a client certificate.
type credential [sha256.Size]byte

// peers are those who are connected. Those on whose connection nothing was admitted yet are
// strangers: how much they may hold is bounded, for each address and in total.
type peers struct {
	admitted *answers[credential, struct{}]

	mu        sync.Mutex
	open      int
	strangers strangers[*peer]
	asking    asking
}

func newPeers() *peers { return &peers{admitted: newAnswers[credential, struct{}](admittedTTL, 0)} }

// A peer is one connection.
type peer struct {
	net.Conn
	all     *peers
	address netip.Prefix
	life    *time.Timer // closes a stranger
	once    sync.Once   // closes

	mu       sync.Mutex
	known    bool
	requests int
}

// A peerListener accepts connections, and closes those of strangers who hold too many.
type peerListener struct {
	net.Listener
	all *peers
}

// Accept returns the next connection.
func (l peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p := l.all.enter(conn); p != nil {
			return p, nil
		}
	}
}

// enter returns the peer of a new connection, nil if it is one too many and was closed.
func (a *peers) enter(conn net.Conn) *peer {
	p := &peer{Conn: conn, all: a, address: addressOf(conn.RemoteAddr())}
	a.mu.Lock()
	if a.open >= maxConnections {
		a.mu.Unlock()
		conn.Close()
		return nil
	}
	a.open++
	victim, full := a.strangers.enter(p.address, p)
	p.life = time.AfterFunc(strangerLife, func() { p.Close() })
	a.mu.Unlock()
	if full {
		victim.Close()
	}
	return p
}

func addressOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return neighbourhood(tcp.AddrPort().Addr())
}

// Close closes the connection.
func (p *peer) Close() error {
	p.once.Do(func() {
		p.life.Stop()
		p.all.mu.Lock()
		defer p.all.mu.Unlock()
		p.all.open--
		p.all.strangers.leave(p.address, p)
	})
	return p.Conn.Close()
}

// admit frees the connection of the limits of strangers.
func (p *peer) admit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return
	}
	p.known = true
	p.life.Stop()
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.all.strangers.leave(p.address, p)
}

// asks counts a request. It reports whether the peer is a stranger, and whether it has asked too
// often for one.
func (p *peer) asks() (stranger, tooOften bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	return !p.known, !p.known && p.requests > strangerRequests
}

// peerKey is that of the peer in the context of a connection, visitKey of the visit in that of a
// request.
type peerKey struct{}
type visitKey struct{}

// connected puts the peer into the context of its connection.
func connected(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, peerKey{}, conn)
}

// A visit is a request.
type visit struct {
	peer       *peer
	credential credential
	shown      bool // a credential
	// admit ends the bounds on requests of strangers.
	admit func()
}

// admitted notes that the request of a context may do what it asks for.
func admitted(ctx context.Context) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return
	}
	if v.shown {
		v.peer.all.admitted.put(v.credential, struct{}{}, true)
	}
	v.peer.admit()
	v.admit()
}

// guard bounds what strangers may ask at a time. A request beyond that is broken off without an
// answer: an answer could be kept waiting by a peer that does not read.
func (a *peers) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := r.Context().Value(peerKey{}).(*peer)
		if !ok {
			panic(http.ErrAbortHandler) // no connection of the listener
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		v := &visit{peer: p, admit: func() {}}
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		v.credential, v.shown = credentialOf(r)
		stranger, tooOften := p.asks()
		if stranger && v.shown {
			_, _, known := a.admitted.get(v.credential)
			stranger, tooOften = !known, tooOften && !known
		}
		switch {
		case tooOften:
			p.Close()
			panic(http.ErrAbortHandler)
		case stranger:
			a.answerStranger(w, r, v, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// answerStranger answers a request within a time, and returns when the answer is sent. Once the
// request is admitted it is as any other.
func (a *peers) answerStranger(w http.ResponseWriter, r *http.Request, v *visit, next http.Handler) {
	a.mu.Lock()
	ok := a.asking.enter(v.peer.address)
	a.mu.Unlock()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) // a connection that cannot fails at the write
	known := false
	release := sync.OnceFunc(func() {
		_ = control.SetWriteDeadline(time.Time{})
		a.leave(v.peer.address)
	})
	defer release()
	v.admit = func() { known = true; release() }
	next.ServeHTTP(w, r)
	if !known {
		_ = control.Flush() // the last that can wait for the peer
	}
}

func (a *peers) leave(address netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking.leave(address)
}

// credentialOf returns the hash of what a request is known by, which the peer has proven to have.
func credentialOf(r *http.Request) (c credential, shown bool) {
	if token, ok := bearer(r); ok && len(token) <= maxToken {
		return sha256.Sum256([]byte(token)), true
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return sha256.Sum256(r.TLS.PeerCertificates[0].Raw), true
	}
	return c, false
}
