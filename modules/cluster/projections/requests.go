package projections

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// requests is one version of the API of PodCertificateRequests.
type requests interface {
	// served returns nil if the API server serves the version, and a NotFound error if it does not.
	served(ctx context.Context, o metav1.ListOptions) error
	// create creates a request for the public key of key, and returns its name. It does not modify r.
	create(ctx context.Context, r *certificatesv1.PodCertificateRequest, key crypto.Signer) (string, error)
	get(ctx context.Context, namespace, name string) (*certificatesv1.PodCertificateRequestStatus, error)
}

// requestsOf returns the versions, the newest first.
func requestsOf(kube kubernetes.Interface) []requests {
	return []requests{stable{kube}, beta{kube}}
}

type stable struct{ kube kubernetes.Interface }

func (s stable) served(ctx context.Context, o metav1.ListOptions) error {
	_, err := s.kube.CertificatesV1().PodCertificateRequests(metav1.NamespaceAll).List(ctx, o)
	return err
}

func (s stable) create(ctx context.Context, r *certificatesv1.PodCertificateRequest, _ crypto.Signer) (string, error) {
	made, err := s.kube.CertificatesV1().PodCertificateRequests(r.Namespace).Create(ctx, r, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

func (s stable) get(ctx context.Context, namespace, name string) (*certificatesv1.PodCertificateRequestStatus, error) {
	r, err := s.kube.CertificatesV1().PodCertificateRequests(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &r.Status, nil
}

type beta struct{ kube kubernetes.Interface }

func (b beta) served(ctx context.Context, o metav1.ListOptions) error {
	_, err := b.kube.CertificatesV1beta1().PodCertificateRequests(metav1.NamespaceAll).List(ctx, o)
	return err
}

// create sends the PKCS#10 request. API servers of Kubernetes 1.35 do not know it: they get the public key, and a
// signature of the pod's UID as the proof of possession.
func (b beta) create(ctx context.Context, r *certificatesv1.PodCertificateRequest, key crypto.Signer) (string, error) {
	s := &r.Spec
	converted := &v1beta1.PodCertificateRequest{ObjectMeta: r.ObjectMeta, Spec: v1beta1.PodCertificateRequestSpec{
		SignerName: s.SignerName, PodName: s.PodName, PodUID: s.PodUID, ServiceAccountName: s.ServiceAccountName, ServiceAccountUID: s.ServiceAccountUID,
		NodeName: s.NodeName, NodeUID: s.NodeUID, MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: s.StubPKCS10Request,
		UnverifiedUserAnnotations: s.UnverifiedUserAnnotations,
	}}
	client := b.kube.CertificatesV1beta1().PodCertificateRequests(r.Namespace)
	made, err := client.Create(ctx, converted, metav1.CreateOptions{})
	if requiresPublicKey(err) {
		public, proof, failed := proofOf(key, string(s.PodUID))
		if failed != nil {
			return "", failed
		}
		old := &converted.Spec
		old.StubPKCS10Request = nil
		old.PKIXPublicKey, old.ProofOfPossession = public, proof //lint:ignore SA1019 Kubernetes 1.35 has no other fields.
		made, err = client.Create(ctx, converted, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

func (b beta) get(ctx context.Context, namespace, name string) (*certificatesv1.PodCertificateRequestStatus, error) {
	r, err := b.kube.CertificatesV1beta1().PodCertificateRequests(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return (*certificatesv1.PodCertificateRequestStatus)(&r.Status), nil
}

// requiresPublicKey reports whether the API server rejects a request because it has no pkixPublicKey.
func requiresPublicKey(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "spec.pkixPublicKey" {
			return true
		}
	}
	return false
}

// proofOf returns the public key in PKIX form, and a signature of the UID.
func proofOf(key crypto.Signer, uid string) (public, proof []byte, err error) {
	if public, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		return nil, nil, err
	}
	hash := sha256.Sum256([]byte(uid))
	switch k := key.(type) {
	case *rsa.PrivateKey:
		proof, err = rsa.SignPSS(rand.Reader, k, crypto.SHA256, hash[:], nil)
	case *ecdsa.PrivateKey:
		proof, err = ecdsa.SignASN1(rand.Reader, k, hash[:])
	case ed25519.PrivateKey:
		proof = ed25519.Sign(k, []byte(uid))
	}
	return public, proof, err
}

// newKey returns a new private key of a type of the API.
func newKey(keyType string) (crypto.Signer, error) {
	switch keyType {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("keyType %q is not known", keyType)
}

// encoded returns the key as PEM, and an empty PKCS#10 request that it has signed.
func encoded(key crypto.Signer) (text, request []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), request, err
}

// chainOf returns a chain's certificates, without the text and the headers around them.
func chainOf(issued string) (chain []byte) {
	for der := range certificatesIn(issued) {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: []byte(der)})...)
	}
	return chain
}
