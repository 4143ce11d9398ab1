package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnections bounds all peers' connections, admitted ones included.
	maxConnections = 2048
	// strangerLife is how long a connection may live without an admitted request.
	strangerLife = 30 * time.Second
	// strangerRequests limits the requests on such a connection.
	strangerRequests = 100
	// answerTimeout limits the response to a request that is not admitted, and the time for which
	// an admitted peer may read no part of a response.
	answerTimeout = 15 * time.Second
	// admittedTTL is how long an admitted credential is exempt from limits on strangers.
	admittedTTL = 5 * time.Minute
	// maxRequestsOfUser and maxConnectionsOfUser limit an admitted user. All users of an API server
	// count as one user here: it may have 384 streams, each with a connection, and 128 other
	// requests.
	maxRequestsOfUser, maxConnectionsOfUser = 512, 512
	// bodyTimeout is the timeout for reading a request's body.
	bodyTimeout = 15 * time.Second
	// maxBody is the maximum size of a request's body, in bytes. No path needs one.
	maxBody = 64 << 10
)

// A credential is the hash of a token or of a client certificate.
type credential [sha256.Size]byte

// peers are the connected peers. A peer without an admitted request on its connection is a
// stranger: strangers are limited for each address and in total, admitted peers for each user.
type peers struct {
	admitted *resultCache[credential, string] // the user's name

	// clients returns the authorities for client certificates, nil for none.
	clients func() *x509.CertPool

	mu        sync.Mutex
	open      int
	strangers strangers[netip.Prefix, *peer]
	asking    strangers[netip.Prefix, *peerRequest]
	verified  strangers[string, *peerRequest] // by user
	requests  map[string]int                  // by user
	conns     map[string]int                  // by user
}

func newPeers(clients func() *x509.CertPool) *peers {
	a := &peers{
		admitted:  newResultCache[credential, string](admittedTTL, 0),
		clients:   clients,
		strangers: strangers[netip.Prefix, *peer]{total: maxStrangers, perKey: maxStrangersOfAddress},
		asking:    strangers[netip.Prefix, *peerRequest]{total: maxAsking, perKey: maxAskingOfAddress},
		verified:  strangers[string, *peerRequest]{total: maxVerified, perKey: maxVerifiedOfUser},
		requests:  map[string]int{}, conns: map[string]int{},
	}
	// Otherwise a peer that connects again and again would close its own connection with the request
	// whose review is about to end.
	a.strangers.spares = func(p *peer) bool { return p.waiting > 0 }
	return a
}

// acquire adds one to a user's count, and reports whether the limit allows it. The caller holds a lock.
func acquire(held map[string]int, user string, most int) bool {
	if held[user] >= most {
		return false
	}
	held[user]++
	return true
}

// release subtracts one from a user's count. The caller holds a lock.
func release(held map[string]int, user string) {
	if held[user]--; held[user] == 0 {
		delete(held, user)
	}
}

// A peer is one connection.
type peer struct {
	net.Conn
	all     *peers
	address netip.Prefix
	life    *time.Timer // closes a stranger's connection
	waiting int         // its requests that count against the limits on strangers; guarded by the lock of all
	once    sync.Once   // guards Close

	verify   sync.Once
	certUser string // the verified certificate's user, empty if there is none

	mu       sync.Mutex
	known    bool
	user     string // who made the first request that was admitted
	closed   bool
	requests int
}

// A peerListener accepts connections, and closes connections from strangers that exceed a limit.
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
		if p := l.all.add(conn); p != nil {
			return p, nil
		}
	}
}

// add returns a new connection's peer. If there are too many, it closes the connection and returns nil.
func (a *peers) add(conn net.Conn) *peer {
	p := &peer{Conn: conn, all: a, address: addressOf(conn.RemoteAddr())}
	a.mu.Lock()
	if a.open >= maxConnections {
		a.mu.Unlock()
		conn.Close()
		return nil
	}
	a.open++
	victim, full := a.strangers.add(p.address, p)
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
	return addressPrefix(tcp.AddrPort().Addr())
}

// Close closes the connection.
func (p *peer) Close() error {
	p.once.Do(func() {
		p.life.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
		p.all.mu.Lock()
		defer p.all.mu.Unlock()
		p.all.open--
		p.all.strangers.remove(p.address, p)
		if p.known {
			release(p.all.conns, p.user)
		}
	})
	return p.Conn.Close()
}

// admit assigns the connection to a user, and exempts it from the limits on strangers. It reports whether
// the user may have one more connection.
func (p *peer) admit(user string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known || p.closed {
		return true
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if !acquire(p.all.conns, user, maxConnectionsOfUser) {
		return false
	}
	p.known, p.user = true, user
	p.life.Stop()
	p.all.strangers.remove(p.address, p)
	return true
}

// countRequest counts a request. It returns the connection's user, none for a stranger, and whether a
// stranger has made too many requests.
func (p *peer) countRequest() (user string, known, tooOften bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	return p.user, p.known, !p.known && p.requests > strangerRequests
}

// peerKey is the context key of a connection's peer, requestKey that of a peerRequest.
type peerKey struct{}
type requestKey struct{}

// connected puts the peer into its connection's context.
func connected(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, peerKey{}, conn)
}

// A peerRequest is a peer request.
type peerRequest struct {
	peer   *peer
	writer *writer
	cancel context.CancelFunc
	// claimed is the request's token credential, zero if it has none.
	claimed credential
	// credential identifies the user. It is valid only if identified is set.
	credential credential
	identified bool
	// certUser is the user of the peer's verified certificate if the request counts against that user's limit.
	certUser string
	// counted means that the request counts for a user.
	counted bool
	user    string
}

// accepted records the credential that identifies a request's user.
func accepted(ctx context.Context, c credential) {
	if v, ok := ctx.Value(requestKey{}).(*peerRequest); ok {
		v.credential, v.identified = c, true
	}
}

// admitted records that a request is authorized. It reports whether its user may have one more
// request and connection.
func admitted(ctx context.Context, user string) bool {
	v, ok := ctx.Value(requestKey{}).(*peerRequest)
	if !ok {
		return true
	}
	if !v.counted && !v.count(user) || !v.peer.admit(user) {
		return false
	}
	if v.identified {
		v.peer.all.admitted.put(v.credential, user, true)
	}
	v.leaveStrangers()
	v.writer.admit()
	return true
}

// count assigns a request to a user, and reports whether the user may have one more.
func (v *peerRequest) count(user string) bool {
	a := v.peer.all
	a.mu.Lock()
	defer a.mu.Unlock()
	v.user, v.counted = user, acquire(a.requests, user, maxRequestsOfUser)
	return v.counted
}

// leaveStrangers removes a request from the strangers' requests.
func (v *peerRequest) leaveStrangers() {
	v.peer.all.mu.Lock()
	defer v.peer.all.mu.Unlock()
	if v.peer.all.asking.remove(v.peer.address, v) || v.peer.all.verified.remove(v.certUser, v) {
		v.peer.waiting--
	}
}

// sharesToken reports whether two requests show the same token. One review decides for both.
func (v *peerRequest) sharesToken(other *peerRequest) bool {
	return v.claimed == other.claimed && v.claimed != credential{}
}

// end releases the request's resources.
func (v *peerRequest) end() {
	v.cancel()
	v.leaveStrangers()
	if v.counted {
		v.peer.all.mu.Lock()
		defer v.peer.all.mu.Unlock()
		release(v.peer.all.requests, v.user)
	}
}

// guard limits the concurrent peer requests. A stranger's request beyond the limit is aborted
// without a response, because a peer that does not read could delay the response.
func (a *peers) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := r.Context().Value(peerKey{}).(*peer)
		if !ok {
			panic(http.ErrAbortHandler) // no connection from the listener
		}
		ctx, cancel := context.WithCancel(r.Context())
		v := &peerRequest{peer: p, writer: newWriter(w), cancel: cancel}
		defer v.end()
		r = r.WithContext(context.WithValue(ctx, requestKey{}, v))
		r.Body = http.MaxBytesReader(w, v.writer.bound(r), maxBody)
		user, known, tooOften := p.countRequest()
		if of, found := a.userOf(r); found {
			user, known = of, true
		}
		switch {
		case known && !v.count(user):
			refuse(w)
		case known:
			next.ServeHTTP(v.writer, r)
		case tooOften:
			p.Close()
			panic(http.ErrAbortHandler)
		default:
			a.answerStranger(v, r, next)
		}
		v.writer.end()
	})
}

// refuse rejects a request that may be retried.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
}

// answerStranger serves a request within a time limit, and returns when the response is sent. Once
// the request is admitted, the limit no longer applies. A request with a verified certificate counts
// against the certificate's user limit, so that an API server's burst does not compete with
// strangers.
func (a *peers) answerStranger(v *peerRequest, r *http.Request, next http.Handler) {
	v.writer.until = time.Now().Add(answerTimeout)
	v.claimed, _ = claimOf(r)
	if v.certUser = v.peer.verifiedUser(r); v.certUser == "" {
		if !a.enterAsking(v) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(v.writer, r)
	} else if a.enterVerified(v) {
		next.ServeHTTP(v.writer, r)
	} else {
		refuse(v.writer)
	}
	if !v.writer.until.IsZero() {
		_ = v.writer.FlushError() // the last write that can wait for the peer
	}
}

// enterAsking reports whether one more request from a stranger may be served. At the limit, it aborts
// the oldest request of the same address, or of the address with the most, with its connection, except
// a request on the same connection or with the same token. Requests with the same token wait for the
// same review, which would never end if each request aborted the one before it.
func (a *peers) enterAsking(v *peerRequest) bool {
	a.mu.Lock()
	if victim, _, full := a.asking.victim(v.peer.address); full && (victim.peer == v.peer || victim.sharesToken(v)) {
		a.mu.Unlock()
		return false
	}
	victim, full := a.asking.add(v.peer.address, v)
	v.peer.waiting++
	a.mu.Unlock()
	if full {
		victim.cancel()
		victim.peer.Close()
	}
	return true
}

// verifiedUser returns the peer's certificate user if that is verified. The result is cached for
// the limits alone; the Authenticator verifies every request.
func (p *peer) verifiedUser(r *http.Request) (user string) {
	p.verify.Do(func() {
		if p.all.clients == nil {
			return
		}
		if user, ok := certificateUser(r, p.all.clients()); ok {
			p.certUser = user.Name
		}
	})
	return p.certUser
}

// enterVerified reports whether one more request with a verified certificate may be served. At the limit, it aborts the
// oldest request from the user with the most requests, with its connection, unless that is the requesting user.
func (a *peers) enterVerified(v *peerRequest) bool {
	a.mu.Lock()
	if _, from, full := a.verified.victim(v.certUser); full && from == v.certUser {
		a.mu.Unlock()
		return false
	}
	victim, full := a.verified.add(v.certUser, v)
	v.peer.waiting++
	a.mu.Unlock()
	if full {
		victim.cancel()
		victim.peer.Close()
	}
	return true
}

// userOf returns the user who was admitted with this request's credential, which the peer has
// proven to possess. A certificate takes precedence over a token, as in an Authenticator.
func (a *peers) userOf(r *http.Request) (user string, known bool) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if user, _, known = a.admitted.get(certificateCredential(r.TLS.PeerCertificates[0])); known {
			return user, known
		}
	}
	if claimed, ok := claimOf(r); ok {
		user, _, known = a.admitted.get(claimed)
	}
	return user, known
}

// claimOf returns a request's token credential, if it has one that may be reviewed.
func claimOf(r *http.Request) (claimed credential, ok bool) {
	token, ok := bearer(r)
	if !ok || len(token) > maxToken {
		return credential{}, false
	}
	return tokenCredential(token), true
}

func certificateCredential(c *x509.Certificate) credential { return sha256.Sum256(c.Raw) }

// tokenCredential returns a hash, so that no token is stored.
func tokenCredential(token string) credential { return sha256.Sum256([]byte(token)) }
