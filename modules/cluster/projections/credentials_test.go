package projections_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/projections"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume"
)

// A signer is a cluster that serves PodCertificateRequests in one version.
type signer struct {
	*testing.T
	*projections.Projections
	kube   *fake.Clientset
	serves string
	// without has the server reject PKCS#10 requests, as Kubernetes 1.35 does.
	without bool
	// unknown has the authorizer know no request yet.
	unknown bool
	// fail is the error of the next creations.
	fail    error
	pods    []*v1.Pod
	node    *v1.Node
	changes atomic.Int32
	// asked has all requests in the form of v1beta1, whose names are req-0, req-1 and so on.
	asked []*v1beta1.PodCertificateRequest
}

func signing(t *testing.T, test func(s *signer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &signer{T: t, serves: "v1beta1", node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}, pods: []*v1.Pod{podOf("u-1")}}
		s.kube = fake.NewClientset(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "sa-uid"}})
		s.kube.PrependReactor("list", "podcertificaterequests", func(a ktesting.Action) (bool, runtime.Object, error) {
			if selector := a.(ktesting.ListAction).GetListRestrictions().Fields.String(); selector != "spec.nodeName=n1" {
				t.Errorf("list with selector %q, which a node may not", selector)
			}
			return a.GetResource().Version != s.serves, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		})
		s.kube.PrependReactor("create", "podcertificaterequests", s.create)
		s.kube.PrependReactor("get", "podcertificaterequests", s.get)
		stop := s.start()
		test(s)
		stop()
		s.wantError("the agent is stopping")
	})
}

// start starts an agent, and returns what stops it.
func (s *signer) start() (stop func()) {
	s.Projections = must.Get(projections.New(projections.Config{
		Kube: s.kube, Changed: func() { s.changes.Add(1) }, Node: func() *v1.Node { return s.node }, Pods: func() []*v1.Pod { return s.pods },
	}))(s)
	return must.Go(s, s.Projections.Run)
}

// get refuses a node the requests that do not exist, as the authorizer of an API server does.
func (s *signer) get(a ktesting.Action) (bool, runtime.Object, error) {
	name := a.(ktesting.GetAction).GetName()
	if _, err := s.kube.Tracker().Get(a.GetResource(), a.GetNamespace(), name); apierrors.IsNotFound(err) || s.unknown {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), name, errors.New("no relationship found"))
	}
	return false, nil, nil
}

func (s *signer) create(a ktesting.Action) (bool, runtime.Object, error) {
	if s.fail != nil {
		return true, nil, s.fail
	}
	if a.GetResource().Version != s.serves {
		return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
	}
	object := a.(ktesting.CreateAction).GetObject().DeepCopyObject()
	r, ok := object.(*v1beta1.PodCertificateRequest)
	if !ok {
		stable := object.(*certificatesv1.PodCertificateRequest)
		r = &v1beta1.PodCertificateRequest{ObjectMeta: stable.ObjectMeta, Spec: v1beta1.PodCertificateRequestSpec{StubPKCS10Request: stable.Spec.StubPKCS10Request}}
		stable.Name = fmt.Sprintf("req-%d", len(s.asked))
	}
	//lint:ignore SA1019 of Kubernetes 1.35
	if s.without && len(r.Spec.PKIXPublicKey) == 0 {
		return true, nil, apierrors.NewInvalid(v1beta1.Kind("PodCertificateRequest"), "", field.ErrorList{field.Invalid(field.NewPath("spec", "pkixPublicKey"), "", "must be a valid PKIX-serialized public key")})
	}
	r.Name = fmt.Sprintf("req-%d", len(s.asked))
	s.asked = append(s.asked, r)
	return true, object, s.kube.Tracker().Create(a.GetResource(), object, a.GetNamespace())
}

// answer writes the result of the newest request.
func (s *signer) answer(status v1beta1.PodCertificateRequestStatus) {
	s.Helper()
	r := s.asked[len(s.asked)-1]
	r.Status = status
	var object runtime.Object = r.DeepCopy()
	if s.serves == "v1" {
		object = &certificatesv1.PodCertificateRequest{ObjectMeta: r.ObjectMeta, Status: certificatesv1.PodCertificateRequestStatus(status)}
	}
	resource := certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")
	resource.Version = s.serves
	must.Do(s, s.kube.Tracker().Update(resource, object, r.Namespace))
}

func (s *signer) refuse(kind, reason, message string) {
	s.Helper()
	s.answer(v1beta1.PodCertificateRequestStatus{Conditions: []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}}})
}

// issue issues a certificate for a day, which may be renewed after half of it.
func (s *signer) issue() {
	s.Helper()
	r := s.asked[len(s.asked)-1]
	request, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil || request.CheckSignature() != nil || len(request.Subject.Names) > 0 {
		s.Fatalf("%v, request %+v", err, request)
	}
	_, ca, _ := ed25519.GenerateKey(rand.Reader)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(len(s.asked))), NotBefore: now, NotAfter: now.Add(24 * time.Hour)}
	leaf := must.Get(x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, ca))(s)
	chain := "issued by a test\n" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"h": "v"}, Bytes: leaf}))
	s.answer(v1beta1.PodCertificateRequestStatus{
		CertificateChain: chain, NotBefore: new(metav1.NewTime(now)), BeginRefreshAt: new(metav1.NewTime(now.Add(12 * time.Hour))), NotAfter: new(metav1.NewTime(now.Add(24 * time.Hour))),
		Conditions: []metav1.Condition{{Type: v1beta1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue}},
	})
}

func podOf(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}, Spec: v1.PodSpec{ServiceAccountName: "web"}}
}

func source(keyType string) *v1.PodCertificateProjection {
	return &v1.PodCertificateProjection{
		SignerName: "example.com/s", KeyType: keyType, MaxExpirationSeconds: new(int32(86400)), UserAnnotations: map[string]string{"example.com/k": "v"},
		CredentialBundlePath: "bundle.pem", KeyPath: "key.pem", CertificateChainPath: "chain.pem",
	}
}

func (s *signer) project(ctx context.Context, keyType string) (volume.Projected, error) {
	sources := []v1.VolumeProjection{{PodCertificate: source(keyType)}}
	return s.Project(ctx, s.pods[0], &v1.Volume{Name: "vol", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}}, 0)
}

// ask returns the serial number of the certificate that a pod gets now.
func (s *signer) ask(keyType string) (serial int64, err error) {
	p, err := s.project(s.Context(), keyType)
	if err != nil {
		return 0, err
	}
	if got := slices.Sorted(maps.Keys(p.Files)); !p.Secret || !slices.Equal(got, []string{"bundle.pem", "chain.pem", "key.pem"}) || p.Next.IsZero() {
		s.Errorf("files %q, secret %t, again %v", got, p.Secret, p.Next)
	}
	key, chain := p.Files["key.pem"], p.Files["chain.pem"]
	if !bytes.Equal(p.Files["bundle.pem"], slices.Concat(key, chain)) || !bytes.HasPrefix(key, []byte("-----BEGIN PRIVATE KEY-----\n")) || !bytes.HasPrefix(chain, []byte("-----BEGIN CERTIFICATE-----\nMI")) {
		s.Error("the bundle is not the key and the chain, without text and headers")
	}
	pair, err := tls.X509KeyPair(chain, key) // fails if they do not belong together
	if err != nil {
		s.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		s.Fatal(err)
	}
	return leaf.SerialNumber.Int64(), nil
}

func (s *signer) want(serial int64) {
	s.Helper()
	if got, err := s.ask("ECDSAP256"); err != nil || got != serial {
		s.Errorf("certificate %d, %v, want %d", got, err, serial)
	}
}

func (s *signer) wantError(want string) {
	s.Helper()
	if _, err := s.ask("ECDSAP256"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "PRIVATE") {
		s.Errorf("%v, want %q", err, want)
	}
}

// issueSoon issues the certificate of the request that the next Project makes.
func (s *signer) issueSoon() {
	go func() {
		time.Sleep(time.Second)
		s.issue()
	}()
}

func (s *signer) wantAsked(n int) {
	s.Helper()
	if len(s.asked) != n {
		s.Errorf("%d requests, want %d", len(s.asked), n)
	}
}

// The request says who asks, and the pod gets the key, the chain and both in one file, without a failed attempt.
func TestCertificateIsRequested(t *testing.T) {
	signing(t, func(s *signer) {
		s.issueSoon()
		s.want(1)
		s.want(1)
		s.wantAsked(1)
		r := s.asked[0]
		r.Spec.StubPKCS10Request = nil
		want := v1beta1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "web", PodUID: "u-1", ServiceAccountName: "web", ServiceAccountUID: "sa-uid", NodeName: "n1", NodeUID: "node-uid",
			MaxExpirationSeconds: new(int32(86400)), UnverifiedUserAnnotations: map[string]string{"example.com/k": "v"},
		}
		if !reflect.DeepEqual(r.Spec, want) {
			t.Errorf("spec %+v", r.Spec)
		}
		if o := r.OwnerReferences; r.Namespace != "shop" || r.GenerateName != "req-" || len(o) != 1 || o[0].Kind != "Pod" || o[0].UID != "u-1" {
			t.Errorf("%+v", r.ObjectMeta)
		}
		if n := s.changes.Load(); n != 1 {
			t.Errorf("%d changes were reported", n)
		}
	})
}

// Each key type is the one that the API names, also for the proof that Kubernetes 1.35 requires.
func TestKeyTypes(t *testing.T) {
	for _, test := range []struct {
		keyType string
		is      func(crypto.PublicKey) bool
	}{
		{"ECDSAP256", func(k crypto.PublicKey) bool { return k.(*ecdsa.PublicKey).Curve == elliptic.P256() }},
		{"ECDSAP384", func(k crypto.PublicKey) bool { return k.(*ecdsa.PublicKey).Curve == elliptic.P384() }},
		{"ECDSAP521", func(k crypto.PublicKey) bool { return k.(*ecdsa.PublicKey).Curve == elliptic.P521() }},
		{"ED25519", func(k crypto.PublicKey) bool { return len(k.(ed25519.PublicKey)) == ed25519.PublicKeySize }},
		{"RSA3072", func(k crypto.PublicKey) bool { return k.(*rsa.PublicKey).N.BitLen() == 3072 }},
		{"RSA4096", func(k crypto.PublicKey) bool { return k.(*rsa.PublicKey).N.BitLen() == 4096 }},
	} {
		signing(t, func(s *signer) {
			s.without = true
			go s.project(s.Context(), test.keyType)
			time.Sleep(time.Second)
			old := s.asked[0].Spec
			public, err := x509.ParsePKIXPublicKey(old.PKIXPublicKey) //lint:ignore SA1019 of Kubernetes 1.35
			if err != nil || !test.is(public) || len(old.StubPKCS10Request) > 0 {
				t.Errorf("%s: %T, %v", test.keyType, public, err)
			}
			//lint:ignore SA1019 of Kubernetes 1.35
			if proof := old.ProofOfPossession; !verifies(public, "u-1", proof) {
				t.Errorf("%s: the proof is wrong", test.keyType)
			}
		})
	}
	signing(t, func(s *signer) {
		if _, err := s.ask("DSA"); err == nil || err.Error() != `podCertificate: keyType "DSA" is not known` {
			t.Errorf("%v", err)
		}
	})
}

// verifies checks a proof of possession as API servers do.
func verifies(public crypto.PublicKey, uid string, proof []byte) bool {
	hash := sha256.Sum256([]byte(uid))
	switch k := public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, hash[:], proof, nil) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, hash[:], proof)
	}
	return ed25519.Verify(public.(ed25519.PublicKey), []byte(uid), proof)
}

// A certificate is renewed with a new key in the five minutes after beginRefreshAt. Until the signer has answered the pod
// keeps the old one, and late answers are reported.
func TestCertificateIsRenewed(t *testing.T) {
	signing(t, func(s *signer) {
		s.issueSoon()
		s.want(1)
		time.Sleep(12*time.Hour - time.Minute)
		s.want(1)
		s.wantAsked(1)
		time.Sleep(6*time.Minute + time.Second)
		s.wantAsked(2)
		s.want(1)
		time.Sleep(11 * time.Minute)
		s.wantError("expires at 2000-01-02T00:00:01Z, was not renewed: PodCertificateRequest shop/req-1 has no result yet")
		s.issue()
		time.Sleep(time.Minute)
		s.want(2)
		if n := s.changes.Load(); n != 2 {
			t.Errorf("%d changes were reported", n)
		}
	})
}

// A refusal is final, and names the signer's reason. At a renewal it leaves the pod its certificate.
func TestSignerRefuses(t *testing.T) {
	for _, kind := range []string{"Denied", "Failed"} {
		signing(t, func(s *signer) {
			go s.project(s.Context(), "ECDSAP256")
			time.Sleep(time.Second)
			s.refuse(kind, "UnsupportedKeyType", "use ED25519"+strings.Repeat(".", 10000))
			time.Sleep(48 * time.Hour)
			s.wantError("podCertificate: PodCertificateRequest shop/req-0 is " + kind + ": UnsupportedKeyType: use ED25519..")
			if _, err := s.ask("ECDSAP256"); len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			s.wantAsked(1)
		})
		signing(t, func(s *signer) {
			s.issueSoon()
			s.want(1)
			time.Sleep(12*time.Hour + 6*time.Minute)
			s.refuse(kind, "Gone", "no more")
			time.Sleep(time.Minute)
			s.wantError("was not renewed: PodCertificateRequest shop/req-1 is " + kind + ": Gone: no more")
			time.Sleep(48 * time.Hour)
			s.wantAsked(2)
		})
	}
}

// Errors of the API server and deleted requests are retried at growing intervals of at most a minute.
func TestErrorsAreRetried(t *testing.T) {
	signing(t, func(s *signer) {
		s.fail = errors.New("no etcd")
		s.wantError("create a PodCertificateRequest: no etcd")
		time.Sleep(10 * time.Minute)
		if n := len(s.kube.Actions()); n < 20 || n > 70 {
			t.Errorf("%d requests in 10 min", n)
		}
		s.fail = nil
		time.Sleep(2 * time.Minute)
		s.wantError("PodCertificateRequest shop/req-0 has no result yet")
		resource := v1beta1.SchemeGroupVersion.WithResource("podcertificaterequests")
		must.Do(t, s.kube.Tracker().Delete(resource, "shop", "req-0"))
		time.Sleep(3 * time.Minute)
		s.wantAsked(2)
		s.answer(v1beta1.PodCertificateRequestStatus{Conditions: []metav1.Condition{{Type: "Issued"}}})
		time.Sleep(3 * time.Minute)
		s.wantError("PodCertificateRequest shop/req-2 has no result yet")
		s.issue()
		time.Sleep(time.Minute)
		s.want(3)
	})
}

// The authorizer of the API server learns of a request after its creation. A request that it does not know after a minute
// is made again.
func TestRequestThatTheAuthorizerDoesNotKnowYet(t *testing.T) {
	signing(t, func(s *signer) {
		s.unknown = true
		go s.project(s.Context(), "ECDSAP256")
		time.Sleep(30 * time.Second)
		s.wantAsked(1)
		s.unknown = false
		s.issue()
		time.Sleep(time.Minute)
		s.want(1)
		s.wantAsked(1)
	})
	signing(t, func(s *signer) {
		s.unknown = true
		go s.project(s.Context(), "ECDSAP256")
		time.Sleep(2 * time.Minute)
		s.wantAsked(2)
	})
}

// The newest version is used. While there is none, or no Node, pods wait with a message.
func TestServersOfCertificates(t *testing.T) {
	signing(t, func(s *signer) {
		s.serves = ""
		s.wantError("podCertificate: the API server does not serve PodCertificateRequests (certificates.k8s.io)")
		s.serves = "v1"
		time.Sleep(time.Minute)
		s.issue()
		time.Sleep(time.Minute)
		s.want(1)
		s.serves = "v1beta1"
		time.Sleep(12*time.Hour + 10*time.Minute)
		s.wantAsked(2)
		s.issue()
		time.Sleep(time.Minute)
		s.want(2)
	})
	signing(t, func(s *signer) {
		s.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		s.wantError("the Node is not registered yet")
	})
	p := must.Get(projections.New(projections.Config{Kube: fake.NewClientset()}))(t)
	without := &signer{T: t, Projections: p, pods: []*v1.Pod{podOf("u-1")}}
	without.wantError("does not request certificates")
}

// The certificate of a pod that is gone is not renewed. The next agent requests a new one.
func TestKeysEndWithThePodAndTheAgent(t *testing.T) {
	signing(t, func(s *signer) {
		s.issueSoon()
		s.want(1)
		s.pods = []*v1.Pod{podOf("u-2")}
		time.Sleep(24 * time.Hour)
		s.wantAsked(1)
		s.issueSoon()
		s.want(2)
	})
	signing(t, func(s *signer) {
		s.issueSoon()
		s.want(1)
		stop := s.start()
		defer stop()
		s.issueSoon()
		s.want(2)
	})
}

// Project returns when its context ends, and in seconds while the signer does not answer.
func TestWaitForTheSignerEnds(t *testing.T) {
	signing(t, func(s *signer) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, err := s.project(ctx, "ED25519"); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.wantError("PodCertificateRequest shop/req-0 has no result yet")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("%v", took)
		}
		s.wantError("PodCertificateRequest shop/req-0 has no result yet")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("a later call waits: %v", took)
		}
	})
}
