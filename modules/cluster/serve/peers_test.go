package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A visitor sends requests to a guard on connections without a network.
type visitor struct{ all *peers }

func (v visitor) connect(address string) *peer {
	near, far := net.Pipe()
	far.Close()
	p := &peer{Conn: near, all: v.all, address: netip.MustParsePrefix(address), life: time.NewTimer(time.Hour)}
	v.all.strangers.add(p.address, p)
	v.all.open++
	return p
}

// ask sends a request with a token, and returns the status, zero if the request is aborted.
func (v visitor) ask(p *peer, token string, do http.HandlerFunc) (status int) {
	r, w := withToken(token), httptest.NewRecorder()
	defer func() {
		if recover() == nil {
			status = w.Code
		}
	}()
	v.all.guard(do).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, p)))
	return w.Code
}

func admitting(user, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		accepted(r.Context(), tokenCredential(token))
		if !admitted(r.Context(), user) {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
}

// TestAdmissionFreesOfLimits: a connection with an admitted request is not a stranger, and neither is the next connection
// with the accepted credential. A connection with another credential is.
func TestAdmissionFreesOfLimits(t *testing.T) {
	all := newPeers(nil)
	v := visitor{all}
	p := v.connect("10.0.0.1/32")
	if status := v.ask(p, "good", admitting("user", "good")); status != http.StatusOK {
		t.Error(status)
	}
	if _, known, _ := p.countRequest(); !known || all.strangers.count != 0 || all.asking.count != 0 || len(all.requests) != 0 || all.conns["user"] != 1 {
		t.Errorf("known %t, %d connections and %d requests of strangers, %v, want none", known, all.strangers.count, all.asking.count, all.requests)
	}
	p.Close()
	if len(all.conns) != 0 || all.open != 0 {
		t.Errorf("%v and %d are open, want none", all.conns, all.open)
	}
	if _, known := all.userOf(withToken("good")); !known {
		t.Error("the credential is not known")
	}
	v.ask(v.connect("10.0.0.1/32"), "beside", admitting("user", "accepted"))
	if _, known := all.userOf(withToken("beside")); known {
		t.Error("a credential is known that was not accepted")
	}
}

// TestRequestsOfStrangersGiveWay: at the limit, the oldest request of the address with the most requests is aborted, with
// its connection.
func TestRequestsOfStrangersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitor{newPeers(nil)}
		ended := make(chan int, 1000)
		wait := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		var first *peer
		for i := range maxAsking {
			p := v.connect(fmt.Sprintf("10.0.0.%d/32", 1+i/maxAskingOfAddress))
			if first == nil {
				first = p
			}
			go func() {
				v.ask(p, "", wait)
				ended <- i
			}()
			synctest.Wait()
		}
		if status := v.ask(v.connect("10.0.1.1/32"), "", func(http.ResponseWriter, *http.Request) {}); status != http.StatusOK {
			t.Errorf("status %d of an honest peer, want an answer", status)
		}
		synctest.Wait()
		if len(ended) != 1 || <-ended != 0 || !first.closed {
			t.Error("the oldest request has not ended with its connection")
		}
		var left []*peerRequest
		v.all.mu.Lock()
		for _, all := range v.all.asking.byKey {
			for _, e := range all {
				left = append(left, e.item)
			}
		}
		v.all.mu.Unlock()
		for _, one := range left {
			one.cancel()
		}
	})
}

// TestOldestOfEqualsGivesWay: no address is at a disadvantage because of its value.
func TestOldestOfEqualsGivesWay(t *testing.T) {
	s := strangers[netip.Prefix, int]{total: 3, perKey: 2}
	for i, address := range []string{"10.0.0.3/32", "10.0.0.1/32", "10.0.0.2/32"} {
		s.add(netip.MustParsePrefix(address), i)
	}
	if victim, full := s.add(netip.MustParsePrefix("10.0.0.0/32"), 3); !full || victim != 0 {
		t.Errorf("%d has to go, %t, want the oldest", victim, full)
	}
}

// TestAdmittedUsersAreBounded: one user cannot use up the limits of others.
func TestAdmittedUsersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitor{newPeers(nil)}
		leave := make(chan struct{})
		stay := func(w http.ResponseWriter, r *http.Request) {
			admitting("user", "good")(w, r)
			<-leave
		}
		p := v.connect("10.0.0.1/32")
		v.ask(p, "good", admitting("user", "good"))
		for range maxRequestsOfUser {
			go v.ask(p, "good", stay)
		}
		synctest.Wait()
		if status := v.ask(v.connect("10.0.0.2/32"), "good", admitting("user", "good")); status != http.StatusTooManyRequests {
			t.Errorf("request %d of a user: %d, want 429", maxRequestsOfUser, status)
		}
		if status := v.ask(v.connect("10.0.0.2/32"), "other", admitting("other", "other")); status != http.StatusOK {
			t.Errorf("another user: %d", status)
		}
		close(leave)
		synctest.Wait()
		for range maxConnectionsOfUser - 1 {
			v.ask(v.connect("10.0.0.1/32"), "good", admitting("user", "good"))
		}
		if status := v.ask(v.connect("10.0.0.1/32"), "good", admitting("user", "good")); status != http.StatusTooManyRequests {
			t.Errorf("connection %d of a user: %d, want 429", maxConnectionsOfUser, status)
		}
		if n := v.all.requests["user"]; n != 0 {
			t.Errorf("%d requests are left", n)
		}
	})
}

// TestAnswersHaveToBeTaken: if an admitted peer reads nothing of a response, or sends nothing of its body, its request
// ends.
func TestAnswersHaveToBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		p := &peer{Conn: near, all: newPeers(nil), known: true, user: "user", life: time.NewTimer(time.Hour)}
		ended := make(chan error, 1)
		handler := p.all.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			if err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			ended <- err
		}))
		listener := &oneConn{conns: make(chan net.Conn, 1)}
		s := &http.Server{Handler: handler, ConnContext: connected}
		go func() { _ = s.Serve(listener) }()
		defer s.Close()
		defer close(listener.conns)
		listener.conns <- p
		go func() { _, _ = io.WriteString(far, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
		begun := time.Now()
		if err := <-ended; err == nil || time.Since(begun) != answerTimeout {
			t.Errorf("%v after %v, want an error after %v", err, time.Since(begun), answerTimeout)
		}
		far.Close()
		near, far = net.Pipe()
		listener.conns <- &peer{Conn: near, all: p.all, known: true, user: "user", life: time.NewTimer(time.Hour)}
		go func() { _, _ = io.WriteString(far, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n") }()
		begun = time.Now()
		if err := <-ended; err == nil || time.Since(begun) != bodyTimeout {
			t.Errorf("%v after %v, want an error after %v", err, time.Since(begun), bodyTimeout)
		}
		far.Close()
	})
}

// A oneConn is a listener that returns the connections in conns.
type oneConn struct{ conns chan net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (*oneConn) Close() error   { return nil }
func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestAuthenticatorRecordsAcceptedUsers: the Authenticator records the credential of a request: a certificate rather than a
// token, and a token that was reviewed or is cached.
func TestAuthenticatorRecordsAcceptedUsers(t *testing.T) {
	ca := newAuthority(t)
	leaf := ca.client("apiserver", x509.ExtKeyUsageClientAuth).Leaf
	kube, _ := reviewer(func() {})
	authn := NewAuthenticator(kube, ca.pool, time.Minute)
	v := visitor{newPeers(nil)}
	note := func(token string, cert *x509.Certificate) (noted *peerRequest) {
		v.ask(v.connect("10.0.0.1/32"), token, func(_ http.ResponseWriter, r *http.Request) {
			if cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
			}
			_, _, _ = authn.AuthenticateRequest(r)
			noted = r.Context().Value(requestKey{}).(*peerRequest)
		})
		return noted
	}
	for range 2 {
		if n := note("good", nil); !n.identified || n.credential != tokenCredential("good") {
			t.Error("the token is not noted")
		}
	}
	if n := note("beside", leaf); !n.identified || n.credential != certificateCredential(leaf) {
		t.Error("the certificate is not noted")
	}
	if n := note("bad", nil); n.identified {
		t.Error("a refused token is noted")
	}
}

// TestRequestsOfOneConnectionDoNotEndIt: a request beyond the limit is aborted, and the other requests of the connection
// continue.
func TestRequestsOfOneConnectionDoNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, leave := visitor{newPeers(nil)}, make(chan struct{})
		p := v.connect("10.0.0.1/32")
		for range maxAskingOfAddress {
			go v.ask(p, "", func(_ http.ResponseWriter, r *http.Request) {
				<-leave
				if r.Context().Err() != nil {
					t.Error("a request that was there has ended")
				}
			})
		}
		synctest.Wait()
		if status := v.ask(p, "", func(http.ResponseWriter, *http.Request) {}); status != 0 || p.closed {
			t.Errorf("status %d, closed %t, want it broken off and the connection open", status, p.closed)
		}
		close(leave)
	})
}

// address is a connection with a remote address.
type address struct {
	net.Conn
	tcp net.TCPAddr
}

func (a address) RemoteAddr() net.Addr { return &a.tcp }

// caller returns both ends of a new connection from an address.
func caller(ip string) (server, client net.Conn) {
	near, far := net.Pipe()
	return address{near, net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}, far
}

// isClosed reports whether the other end of a connection is closed.
func isClosed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// TestStrangersAreClosed: a connection beyond the limit of an address closes the oldest one. All others stay open for
// strangerLife.
func TestStrangersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newPeers(nil)
		var far []net.Conn
		for range maxStrangersOfAddress + 1 {
			server, client := caller("192.0.2.1")
			defer client.Close()
			if all.add(server) == nil {
				t.Fatal("a connection is refused")
			}
			far = append(far, client)
		}
		for i, conn := range far {
			if closed := isClosed(conn); closed != (i == 0) {
				t.Errorf("connection %d of %d is closed: %t", i, len(far), closed)
			}
		}
		time.Sleep(strangerLife)
		synctest.Wait()
		for i, conn := range far {
			if !isClosed(conn) {
				t.Errorf("connection %d outlives %v", i, strangerLife)
			}
		}
	})
}

// TestConnectionsAreBounded: a connection beyond the total limit is closed immediately.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newPeers(nil)
		all.open = maxConnections
		server, client := caller("192.0.2.1")
		defer client.Close()
		if p := all.add(server); p != nil || !isClosed(client) || all.open != maxConnections {
			t.Errorf("%v, and %d are open, want none more than %d", p, all.open, maxConnections)
		}
	})
}

// askWith sends a request with a client certificate.
func (v visitor) askWith(p *peer, cert *tls.Certificate, do http.HandlerFunc) (status int) {
	r, w := withToken(""), httptest.NewRecorder()
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}
	defer func() {
		if recover() == nil {
			status = w.Code
		}
	}()
	v.all.guard(do).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, p)))
	return w.Code
}

// TestVerifiedPeersAreBounded: requests that have a verified certificate and are not authorized are limited for each
// user. At the limit, the user with the most requests loses one. They do not compete with requests of strangers from the
// same address.
func TestVerifiedPeersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		v := visitor{newPeers(ca.pool)}
		leave := make(chan struct{})
		wait := func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-leave:
			}
		}
		nothing := func(http.ResponseWriter, *http.Request) {}
		const here = "10.0.0.1/32"
		good := ca.client("apiserver", x509.ExtKeyUsageClientAuth)
		for range maxAskingOfAddress {
			go v.ask(v.connect(here), "", wait)
		}
		synctest.Wait()
		burst := v.connect(here)
		for range 2 * maxAskingOfAddress {
			go func() {
				if status := v.askWith(burst, good, wait); status != http.StatusOK {
					t.Errorf("a request of a burst is answered %d, want 200", status)
				}
			}()
		}
		for i := range 5 {
			weak, p := ca.client(fmt.Sprint("weak", i), x509.ExtKeyUsageClientAuth), v.connect(fmt.Sprintf("10.0.0.%d/32", 2+i))
			for range maxVerifiedOfUser {
				go v.askWith(p, weak, wait)
			}
			synctest.Wait()
			if status := v.askWith(v.connect(here), weak, nothing); status != http.StatusTooManyRequests {
				t.Errorf("request %d of a user without a right: %d, want 429", maxVerifiedOfUser, status)
			}
			if i == 0 && (v.all.asking.count != maxAskingOfAddress || v.all.verified.count != maxVerifiedOfUser+2*maxAskingOfAddress) {
				t.Errorf("%d requests of strangers and %d verified ones", v.all.asking.count, v.all.verified.count)
			}
		}
		if status := v.askWith(v.connect(here), good, nothing); status != http.StatusOK || v.all.verified.count > maxVerified {
			t.Errorf("%d beside many users without a right, and %d requests, want 200 and at most %d", status, v.all.verified.count, maxVerified)
		}
		other := newAuthority(t)
		if v.askWith(v.connect("10.0.1.1/32"), other.client("apiserver", x509.ExtKeyUsageClientAuth), func(http.ResponseWriter, *http.Request) {
			if n := len(v.all.asking.byKey[netip.MustParsePrefix("10.0.1.1/32")]); n != 1 {
				t.Errorf("a certificate of another authority has %d places of strangers, want 1", n)
			}
		}); v.all.asking.count != maxAskingOfAddress {
			t.Errorf("%d requests of strangers are left, want %d", v.all.asking.count, maxAskingOfAddress)
		}
		admit := func(w http.ResponseWriter, r *http.Request) {
			accepted(r.Context(), certificateCredential(good.Leaf))
			if !admitted(r.Context(), "apiserver") || len(v.all.verified.byKey["apiserver"]) != 2*maxAskingOfAddress {
				t.Errorf("an admitted request still has a place: %d", len(v.all.verified.byKey["apiserver"]))
			}
		}
		v.askWith(v.connect(here), good, admit)
		close(leave)
		synctest.Wait()
		if v.all.verified.count != 0 || v.all.asking.count != 0 || len(v.all.requests) != 0 {
			t.Errorf("%d, %d and %d requests are left", v.all.verified.count, v.all.asking.count, len(v.all.requests))
		}
	})
}

// TestReviewEndsWhileItsUserAsksAgain: a user has more concurrent requests than a stranger may have, each on a new
// connection and retried immediately. The user is admitted when the review of the token ends.
func TestReviewEndsWhileItsUserAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users, review = maxStrangersOfAddress, 2 * time.Second
		v, shared, known := visitor{newPeers(nil)}, newReviews[string, string](), atomic.Bool{}
		ask := func(ctx context.Context) (string, bool, error) {
			select {
			case <-ctx.Done():
				return "", false, ctx.Err()
			case <-time.After(review):
				known.Store(true)
				return "user", true, nil
			}
		}
		answer := func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond): // the machine is busy
			}
			if !known.Load() {
				if _, _, err := shared.do(r.Context(), "good", ask); err != nil {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
			}
			admitting("user", "good")(w, r)
		}
		begin, answered := time.Now(), make(chan time.Duration, users)
		for i := range users {
			go func() {
				for time.Since(begin) < strangerLife {
					server, client := caller("192.0.2.1")
					p := v.all.add(server)
					time.Sleep(time.Duration(1+i) * time.Millisecond) // the handshake
					if !isClosed(client) && v.ask(p, "good", answer) == http.StatusOK {
						break
					}
					p.Close()
				}
				answered <- time.Since(begin)
			}()
		}
		for range users {
			if took := <-answered; took > 2*review {
				t.Errorf("a request is answered after %v, want at most %v", took, 2*review)
			}
		}
	})
}

// TestRequestsThatWaitKeepTheirConnections: new connections of an address close connections without a waiting request
// first.
func TestRequestsThatWaitKeepTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, leave := visitor{newPeers(nil)}, make(chan struct{})
		first := v.connect("192.0.2.1/32")
		go v.ask(first, "good", func(http.ResponseWriter, *http.Request) { <-leave })
		synctest.Wait()
		for range 2 * maxStrangersOfAddress {
			server, client := caller("192.0.2.1")
			defer client.Close()
			v.all.add(server)
		}
		if first.closed || v.all.strangers.count != maxStrangersOfAddress {
			t.Errorf("closed %t beside %d connections, want it open beside %d", first.closed, v.all.strangers.count, maxStrangersOfAddress)
		}
		close(leave)
		synctest.Wait()
		for range maxStrangersOfAddress {
			server, client := caller("192.0.2.1")
			defer client.Close()
			v.all.add(server)
		}
		if !first.closed {
			t.Error("the connection is open after its request, and other connections are newer")
		}
	})
}

// TestAnotherTokenTakesAPlace: waiting requests with one token do not lock out another token of the same address.
func TestAnotherTokenTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visitor{newPeers(nil)}
		ended := make(chan struct{}, 2*maxAskingOfAddress)
		for range maxAskingOfAddress {
			go func() {
				v.ask(v.connect("192.0.2.1/32"), "bad", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		nothing := func(http.ResponseWriter, *http.Request) {}
		if status := v.ask(v.connect("192.0.2.1/32"), "bad", nothing); status != 0 || len(ended) != 0 {
			t.Errorf("status %d, and %d requests have ended, want one more with the same token broken off alone", status, len(ended))
		}
		for i, token := range []string{"good", ""} {
			if status := v.ask(v.connect("192.0.2.1/32"), token, nothing); status != http.StatusOK {
				t.Errorf("status %d with token %q, want an answer", status, token)
			}
			synctest.Wait()
			if len(ended) != i+1 {
				t.Errorf("%d requests have ended, want %d", len(ended), i+1)
			}
			go v.ask(v.connect("192.0.2.1/32"), "bad", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			synctest.Wait()
		}
		v.all.mu.Lock()
		left := v.all.asking.byKey[netip.MustParsePrefix("192.0.2.1/32")]
		var visits []*peerRequest
		for _, e := range left {
			visits = append(visits, e.item)
		}
		v.all.mu.Unlock()
		for _, one := range visits {
			one.cancel()
		}
	})
}
