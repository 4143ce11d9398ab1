package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/syncpod/server"
)

// Authenticator authenticates requests. It is a server.Authenticator.
type Authenticator struct {
	kube    kubernetes.Interface
	clients func() *x509.CertPool
	tokens  *resultCache[credential, server.User]
	reviews *reviews[credential, server.User]
}

const (
	// refusedTTL is the maximum time for which a rejected token is cached.
	refusedTTL = 10 * time.Second
	// maxToken is the maximum length of a token, in bytes. Longer ones are not reviewed.
	maxToken = 16 << 10
	// maxChain limits the certificates that a client may present.
	maxChain = 8
)

// NewAuthenticator returns an Authenticator. It accepts client certificates of the authorities that
// clients returns, and tokens that kube reviews; either may be nil. Accepted tokens are cached for
// ttl, rejected ones for ttl but at most ten seconds. At most 16 reviews run at a time, each for at
// most ten seconds.
func NewAuthenticator(kube kubernetes.Interface, clients func() *x509.CertPool, ttl time.Duration) *Authenticator {
	if clients == nil {
		clients = func() *x509.CertPool { return nil }
	}
	return &Authenticator{
		kube: kube, clients: clients,
		tokens: newResultCache[credential, server.User](ttl, min(ttl, refusedTTL)), reviews: newReviews[credential, server.User](),
	}
}

// AuthenticateRequest implements server.Authenticator.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	if user, ok := certificateUser(r, a.clients()); ok {
		accepted(r.Context(), certificateCredential(r.TLS.PeerCertificates[0]))
		return user, true, nil
	}
	token, ok := bearer(r)
	if !ok || a.kube == nil || len(token) > maxToken {
		return server.User{}, false, nil
	}
	known := tokenCredential(token)
	user, ok, found := a.tokens.get(known)
	var err error
	if !found {
		user, ok, err = a.reviews.do(r.Context(), known, func(ctx context.Context) (server.User, bool, error) { return a.review(ctx, known, token) })
	}
	if err == nil && ok {
		accepted(r.Context(), known)
	}
	return user, ok, err
}

// review sends a TokenReview to the API server.
func (a *Authenticator) review(ctx context.Context, known credential, token string) (server.User, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer, err := a.kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return server.User{}, false, errors.New("a token cannot be reviewed") // the original error may contain the request
	}
	user := userOf(answer.Status.User)
	a.tokens.put(known, user, answer.Status.Authenticated)
	return user, answer.Status.Authenticated, nil
}

// certificateUser returns the user of a client certificate signed by one of the authorities.
func certificateUser(r *http.Request, roots *x509.CertPool) (server.User, bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || len(r.TLS.PeerCertificates) > maxChain || roots == nil {
		return server.User{}, false
	}
	intermediates := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	leaf := r.TLS.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil || leaf.Subject.CommonName == "" {
		return server.User{}, false
	}
	return server.User{Name: leaf.Subject.CommonName, Groups: slices.Concat(leaf.Subject.Organization, []string{"system:authenticated"})}, true
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}

func userOf(u authenticationv1.UserInfo) server.User {
	user := server.User{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}
	for k, v := range u.Extra {
		user.Extra[k] = v
	}
	return user
}
