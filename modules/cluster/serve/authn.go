package serve

import (
	"crypto/sha256"
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

// Authenticator says who has sent a request. It is a server.Authenticator.
type Authenticator struct {
	kube    kubernetes.Interface
	clients *x509.CertPool
	tokens  *answers[[sha256.Size]byte, server.User]
}

// NewAuthenticator returns one that knows the holders of certificates of clients, nil for
// none, and asks kube about tokens, nil for none; what it is told of a token holds for ttl.
func NewAuthenticator(kube kubernetes.Interface, clients *x509.CertPool, ttl time.Duration) *Authenticator {
	return &Authenticator{kube: kube, clients: clients, tokens: newAnswers[[sha256.Size]byte, server.User](ttl, 0)}
}

// AuthenticateRequest makes an Authenticator a server.Authenticator.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	if user, ok := a.certificate(r); ok {
		return user, true, nil
	}
	token, ok := bearer(r)
	if !ok || a.kube == nil {
		return server.User{}, false, nil
	}
	known := sha256.Sum256([]byte(token)) // so that no token is kept
	if user, ok, found := a.tokens.get(known); found {
		return user, ok, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	answer, err := a.kube.AuthenticationV1().TokenReviews().Create(r.Context(), review, metav1.CreateOptions{})
	if err != nil {
		return server.User{}, false, errors.New("a token cannot be reviewed") // an error may repeat the request
	}
	user := userOf(answer.Status.User)
	a.tokens.put(known, user, answer.Status.Authenticated)
	return user, answer.Status.Authenticated, nil
}

// certificate returns who the client certificate is of.
func (a *Authenticator) certificate(r *http.Request) (server.User, bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || a.clients == nil {
		return server.User{}, false
	}
	intermediates := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	leaf := r.TLS.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: a.clients, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
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
