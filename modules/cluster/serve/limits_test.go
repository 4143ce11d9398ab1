package serve

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"crypto/x509"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// reviewer returns an API server that accepts tokens that begin with "good", and the number of reviews.
func reviewer(before func()) (*fake.Clientset, *int) {
	kube, reviews := fake.NewClientset(), 0
	kube.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		reviews++
		before()
		token := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview).Spec.Token
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: len(token) >= 4 && token[:4] == "good"}}, nil
	})
	return kube, &reviews
}

func TestRefusedTokensAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, reviews := reviewer(func() {})
		authn := NewAuthenticator(kube, nil, 2*time.Minute)
		for range 1000 {
			if _, ok, err := authn.AuthenticateRequest(withToken("bad")); ok || err != nil {
				t.Fatalf("%t, %v, want a refusal", ok, err)
			}
		}
		if *reviews != 1 {
			t.Errorf("%d reviews of one token, want 1", *reviews)
		}
		time.Sleep(refusedTTL)
		if _, _, err := authn.AuthenticateRequest(withToken("bad")); err != nil || *reviews != 2 {
			t.Errorf("%d reviews after %v, %v, want 2", *reviews, refusedTTL, err)
		}
		if _, ok, err := authn.AuthenticateRequest(withToken(string(make([]byte, maxToken+1)))); ok || err != nil || *reviews != 2 {
			t.Errorf("a token that is too long: %t, %v, %d reviews", ok, err, *reviews)
		}
	})
}

// TestRefusalsDisplaceNoAcceptance: a flood of rejected tokens uses bounded memory, and displaces no accepted token.
func TestRefusalsDisplaceNoAcceptance(t *testing.T) {
	kube, reviews := reviewer(func() {})
	kube.ReactionChain = kube.ReactionChain[:1] // removes the reactor that records each action
	authn := NewAuthenticator(kube, nil, time.Hour)
	_, _, _ = authn.AuthenticateRequest(withToken("good"))
	for i := range 3 * maxCached {
		authn.tokens.put(credential{1, byte(i), byte(i >> 8), byte(i >> 16)}, server.User{}, false)
	}
	if n := authn.tokens.denied.order.Len(); n != maxCached || len(authn.tokens.denied.byKey) != n {
		t.Errorf("%d refusals are kept, want %d", n, maxCached)
	}
	if _, ok, err := authn.AuthenticateRequest(withToken("good")); !ok || err != nil || *reviews != 1 {
		t.Errorf("%t, %v after %d reviews, want the answer that was cached", ok, err, *reviews)
	}
	for i := range 3 * maxCached {
		authn.tokens.put(credential{2, byte(i), byte(i >> 8), byte(i >> 16)}, server.User{}, true)
	}
	if n := authn.tokens.allowed.order.Len(); n != maxCached {
		t.Errorf("%d acceptances are kept, want %d", n, maxCached)
	}
}

// TestReviewsAreBounded: the number of concurrent reviews is limited, callers with the same key share one review, and
// each review times out.
func TestReviewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviews[string, string]()
		var running, most atomic.Int32
		ask := func(ctx context.Context) (string, bool, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-ctx.Done() // the API server does not answer
			running.Add(-1)
			return "", false, ctx.Err()
		}
		begin := time.Now()
		results := make(chan error, 1000)
		for i := range 200 {
			go func() {
				_, _, err := r.do(t.Context(), fmt.Sprint(i), ask)
				results <- err
			}()
			synctest.Wait()
		}
		if running.Load() != maxReviews || most.Load() != maxReviews || len(results) != 200-maxReviews-maxWaiting {
			t.Errorf("%d run and %d are refused, want %d and %d", running.Load(), len(results), maxReviews, 200-maxReviews-maxWaiting)
		}
		for range 200 {
			if err := <-results; !errors.Is(err, server.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want it busy or out of time", err)
			}
		}
		if took := time.Since(begin); took != reviewTimeout {
			t.Errorf("all have an answer after %v, want %v", took, reviewTimeout)
		}
		asked := 0
		for range 50 {
			go func() {
				_, _, err := r.do(t.Context(), "same", func(context.Context) (string, bool, error) {
					asked++
					time.Sleep(time.Second)
					return "", true, nil
				})
				results <- err
			}()
		}
		for range 50 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if asked != 1 {
			t.Errorf("%d reviews of one token, want 1", asked)
		}
	})
}

// TestDepartedCallersCancelTheirReviews: a review without callers is cancelled, and takes no slot.
func TestDepartedCallersCancelTheirReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviews[string, string]()
		stuck := func(ctx context.Context) (string, bool, error) {
			<-ctx.Done()
			return "", false, ctx.Err()
		}
		leaving, leave := context.WithCancel(t.Context())
		for i := range maxReviews + maxWaiting {
			go func() { _, _, _ = r.do(leaving, fmt.Sprint(i), stuck) }()
		}
		staying := make(chan error, 1)
		finish := make(chan struct{})
		shared := func(ctx context.Context) (string, bool, error) {
			select {
			case <-ctx.Done():
				return "", false, ctx.Err()
			case <-finish:
				return "yes", true, nil
			}
		}
		synctest.Wait()
		if _, _, err := r.do(t.Context(), "honest", shared); !errors.Is(err, server.ErrBusy) {
			t.Errorf("%v, want it busy", err)
		}
		leave()
		synctest.Wait()
		if len(r.calls) != 0 || len(r.slots) != 0 {
			t.Errorf("%d reviews are left and %d run, want none", len(r.calls), len(r.slots))
		}
		leaving, leave = context.WithCancel(t.Context())
		go func() { _, _, _ = r.do(leaving, "shared", shared) }()
		synctest.Wait()
		go func() {
			_, _, err := r.do(t.Context(), "shared", shared)
			staying <- err
		}()
		synctest.Wait()
		leave()
		synctest.Wait()
		close(finish)
		if err := <-staying; err != nil {
			t.Errorf("the review of a caller who stays: %v", err)
		}
	})
}

// TestPeersCannotFillTheLog: messages about peers are not logged, and other messages are logged at a limited rate.
func TestPeersCannotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := 0
		f := failures{funcr.New(func(string, string) { lines++ }, funcr.Options{}), new(atomic.Int64)}
		for _, line := range []string{
			"http: TLS handshake error from 10.0.0.1:1: EOF", "http2: server connection error from 10.0.0.1:1: PROTOCOL_ERROR", "http2: received GOAWAY, starting graceful shutdown",
			"http: superfluous response.WriteHeader call", "http2: unsupported frame from 10.0.0.1", "anything else",
		} {
			_, _ = f.Write([]byte(line))
		}
		if lines != 0 {
			t.Errorf("%d lines about peers, want none", lines)
		}
		for range 100 {
			for _, line := range []string{"http: panic serving 10.0.0.1:1: x", "http2: panic serving 10.0.0.1:1: x", "http: Accept error: x; retrying in 1s"} {
				if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
					t.Fatal(n, err)
				}
			}
		}
		if lines != 1 {
			t.Errorf("%d lines in one moment, want 1", lines)
		}
		time.Sleep(reportInterval)
		if _, _ = f.Write([]byte("http2: panic serving 10.0.0.1:1: x")); lines != 2 {
			t.Errorf("%d lines after %v, want 2", lines, reportInterval)
		}
	})
}

func TestStrangersGiveWay(t *testing.T) {
	s := strangers[netip.Prefix, int]{total: maxStrangers, perKey: maxStrangersOfAddress}
	flood, honest := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32")
	s.add(honest, -1)
	for i := range 1000 {
		victim, full := s.add(flood, i)
		if want := i >= maxStrangersOfAddress; full != want || full && victim != i-maxStrangersOfAddress {
			t.Fatalf("connection %d: %d has to go, %t, want the oldest of the address", i, victim, full)
		}
	}
	for i := range 1000 {
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i % 30), 1}), 32)
		if victim, full := s.add(address, 1000+i); full && victim == -1 {
			t.Fatal("the one connection of an address has to go for many of others")
		}
	}
	if s.count != maxStrangers || !s.remove(honest, -1) || s.remove(honest, -1) || s.count != maxStrangers-1 {
		t.Errorf("%d are counted, want %d", s.count, maxStrangers-1)
	}
	for address, all := range s.byKey {
		for _, one := range slices.Clone(all) {
			s.remove(address, one.item)
		}
	}
	if s.count != 0 || len(s.byKey) != 0 {
		t.Errorf("%d of %d addresses are left, want none", s.count, len(s.byKey))
	}
}

func TestNeighbourhood(t *testing.T) {
	for ip, want := range map[string]string{
		"10.0.0.1": "10.0.0.1/32", "::ffff:10.0.0.1": "10.0.0.1/32", "2001:db8::1": "2001:db8::/64", "2001:db8::2:3": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := addressPrefix(netip.MustParseAddr(ip)).String(); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

// TestAuthoritiesAreReadAgain: the authorities are reloaded when their file changes, and an invalid file has no effect.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	write := func(certs ...*x509.Certificate) {
		t.Helper()
		var text []byte
		for _, c := range certs {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		must.Do(t, os.WriteFile(path, text, 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		old, next := newAuthority(t), newAuthority(t)
		if _, err := Authorities(path, nil); err == nil {
			t.Error("a file that is not there is read")
		}
		write(old.cert)
		failures := 0
		get := must.Get(Authorities(path, func(error) { failures++ }))(t)
		authn := NewAuthenticator(nil, get, time.Minute)
		want := func(ofOld, ofNext bool) {
			t.Helper()
			for a, want := range map[*authority]bool{old: ofOld, next: ofNext} {
				leaf := a.client("apiserver", x509.ExtKeyUsageClientAuth).Leaf
				r := withToken("")
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
				if _, ok, err := authn.AuthenticateRequest(r); ok != want || err != nil {
					t.Errorf("%t, %v, want %t", ok, err, want)
				}
			}
		}
		want(true, false)
		write(old.cert, next.cert)
		want(true, false)
		time.Sleep(rereadAfter)
		want(true, true)
		write(next.cert)
		time.Sleep(rereadAfter)
		want(false, true)
		write()
		time.Sleep(rereadAfter)
		want(false, true)
		if failures != 1 {
			t.Errorf("%d failures are reported, want 1", failures)
		}
	})
}

// TestLongChainsAreRefused: the number of certificates that a client presents is limited, because each request verifies
// them.
func TestLongChainsAreRefused(t *testing.T) {
	ca := newAuthority(t)
	leaf := ca.client("apiserver", x509.ExtKeyUsageClientAuth).Leaf
	authn := NewAuthenticator(nil, ca.pool, time.Minute)
	for n, want := range map[int]bool{maxChain: true, maxChain + 1: false} {
		chain := []*x509.Certificate{leaf}
		for len(chain) < n {
			chain = append(chain, ca.cert)
		}
		r := withToken("")
		r.TLS = &tls.ConnectionState{PeerCertificates: chain}
		if _, ok, _ := authn.AuthenticateRequest(r); ok != want {
			t.Errorf("a chain of %d: %t, want %t", n, ok, want)
		}
	}
}
