package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// An authority issues certificates.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t}
	pair := a.issue(&x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue issues a certificate from a template. The authority's own certificate, the first, is self-signed.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	a.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))(a)
	leaf := must.Get(x509.ParseCertificate(der))(a)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) client(name string, use x509.ExtKeyUsage) *tls.Certificate {
	return new(a.issue(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{use}}))
}

// start runs a server that answers with the authenticated user, and returns a function that sends a request over TLS.
func start(t *testing.T, ca *authority, authn *Authenticator) func(cert *tls.Certificate, version uint16) (string, error) {
	ctx, cancel := context.WithCancel(t.Context())
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	own := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, ok, err := authn.AuthenticateRequest(r)
		if err != nil || !ok {
			http.Error(w, "anonymous", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, user.Name+" of "+strings.Join(user.Groups, ","))
	})
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, Config{Handler: handler, Certificate: func() (*tls.Certificate, error) { return &own, nil }}, lis)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(cert *tls.Certificate, version uint16) (string, error) {
		c := &tls.Config{RootCAs: ca.pool(), MaxVersion: version}
		if cert != nil {
			c.Certificates = []tls.Certificate{*cert}
		}
		transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Get("https://" + lis.Addr().String())
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.TrimSpace(string(text)), err
	}
}

func TestCertificatesIdentifyTheCaller(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ask := start(t, ca, NewAuthenticator(nil, ca.pool, time.Minute))
	for _, tt := range []struct {
		name string
		cert *tls.Certificate
		want string
	}{
		{"of the CA", ca.client("apiserver", x509.ExtKeyUsageClientAuth), "apiserver of masters,system:authenticated"},
		{"none", nil, "anonymous"},
		{"of another CA", other.client("apiserver", x509.ExtKeyUsageClientAuth), "anonymous"},
		{"of a server", ca.client("apiserver", x509.ExtKeyUsageServerAuth), "anonymous"},
		{"without a name", ca.client("", x509.ExtKeyUsageClientAuth), "anonymous"},
	} {
		if got, err := ask(tt.cert, 0); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if got, err := ask(nil, tls.VersionTLS11); err == nil {
		t.Errorf("TLS 1.1 is spoken: %q", got)
	}
}

// An API server uses HTTP/2 for all requests except streams. It forwards a log's end to a WebSocket only if the end
// arrives separately from the text, as it does over HTTP/2.
func TestHTTP2(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, Config{
			Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
			Certificate: func() (*tls.Certificate, error) { return &own, nil },
		}, lis)
	}()
	for _, http2 := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool()}, ForceAttemptHTTP2: http2, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Get("https://" + lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[http2]; err != nil || string(text) != want {
			t.Errorf("%q, %v, want %s", text, err, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/pods", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestTokensAreReviewedOnce(t *testing.T) {
	kube := fake.NewClientset()
	reviews, fails := 0, false
	kube.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		reviews++
		if fails {
			return true, nil, errors.New("the token secret is bad")
		}
		review := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		known := review.Spec.Token == "good"
		return true, &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: "ann"}}}, nil
	})
	authn := NewAuthenticator(kube, nil, time.Minute)
	for range 3 {
		if user, ok, err := authn.AuthenticateRequest(withToken("good")); err != nil || !ok || user.Name != "ann" {
			t.Errorf("%+v, %t, %v, want ok and %q and no error", user, ok, err, "ann")
		}
	}
	if reviews != 1 {
		t.Errorf("%d reviews, want 1", reviews)
	}
	for _, token := range []string{"bad", ""} {
		if user, ok, err := authn.AuthenticateRequest(withToken(token)); err != nil || ok {
			t.Errorf("%q: %+v, %t, %v", token, user, ok, err)
		}
	}
	fails = true
	if _, ok, err := authn.AuthenticateRequest(withToken("secret")); err == nil || ok || strings.Contains(err.Error(), "secret") {
		t.Errorf("%t, %v, want false and an error without %q in it", ok, err, "secret")
	}
}

func TestRightsAreAskedForOnce(t *testing.T) {
	kube := fake.NewClientset()
	reviews := 0
	kube.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		reviews++
		spec := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec
		may := spec.User == "ann" && spec.ResourceAttributes.Verb == "get" && spec.ResourceAttributes.Subresource == "proxy" && spec.ResourceAttributes.Name == "n1"
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: may}}, nil
	})
	authz := NewAuthorizer(kube, time.Minute, 0)
	ask := server.Attributes{User: server.User{Name: "ann"}, Verb: "get", APIVersion: "v1", Resource: "nodes", Subresource: "proxy", Name: "n1"}
	for _, path := range []string{"/containerLogs/a/b/c", "/containerLogs/a/b/d"} {
		ask.Path = path
		if ok, _, err := authz.Authorize(t.Context(), ask); err != nil || !ok {
			t.Errorf("%t, %v", ok, err)
		}
	}
	if reviews != 1 {
		t.Errorf("%d reviews, want 1", reviews)
	}
	ask.Verb = "create"
	for range 2 {
		if ok, _, err := authz.Authorize(t.Context(), ask); err != nil || ok {
			t.Errorf("%t, %v", ok, err)
		}
	}
	if reviews != 3 {
		t.Errorf("%d reviews, want 3: a denial must not be cached here", reviews)
	}
}

func TestTLSIsRestricted(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, Config{
			Handler: http.NotFoundHandler(), Certificate: func() (*tls.Certificate, error) { return &own, nil },
			TLS: &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP384}},
		}, lis)
	}()
	for _, tt := range []struct {
		most  uint16
		curve tls.CurveID
		ok    bool
	}{{tls.VersionTLS13, tls.CurveP384, true}, {tls.VersionTLS12, tls.CurveP384, false}, {tls.VersionTLS13, tls.CurveP256, false}} {
		conn, err := tls.Dial("tcp", lis.Addr().String(), &tls.Config{RootCAs: ca.pool(), MaxVersion: tt.most, CurvePreferences: []tls.CurveID{tt.curve}})
		if (err == nil) != tt.ok {
			t.Errorf("%x with %v: %v, want it to be agreed on: %t", tt.most, tt.curve, err, tt.ok)
		}
		if err == nil {
			conn.Close()
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCipherSuitesAreRestricted tests TLS 1.2, the only version with configurable cipher suites.
func TestCipherSuitesAreRestricted(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	const only = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 // HTTP/2 requires it
	go func() {
		ended <- serve(ctx, Config{
			Handler: http.NotFoundHandler(), Certificate: func() (*tls.Certificate, error) { return &own, nil },
			TLS: &tls.Config{CipherSuites: []uint16{only}},
		}, lis)
	}()
	for suite, want := range map[uint16]bool{only: true, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: false} {
		conn, err := tls.Dial("tcp", lis.Addr().String(), &tls.Config{RootCAs: ca.pool(), MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}})
		if (err == nil) != want {
			t.Errorf("%s: %v, want it to be agreed on: %t", tls.CipherSuiteName(suite), err, want)
		}
		if err == nil {
			conn.Close()
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
