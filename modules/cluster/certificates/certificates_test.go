package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/keyutil"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// An authority signs certificate requests, and records them.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	kube *fake.Clientset

	mu     sync.Mutex
	signed []*x509.CertificateRequest
	asked  []certificatesv1.CertificateSigningRequestSpec
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t, kube: fake.NewClientset()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key))(t)
	a.cert, _ = x509.ParseCertificate(der)
	a.kube.PrependReactor("create", "certificatesigningrequests", func(act ktesting.Action) (bool, runtime.Object, error) {
		request := act.(ktesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		a.sign(request)
		return false, nil, nil
	})
	return a
}

// sign issues a certificate that is valid for an hour, and names the request.
func (a *authority) sign(csr *certificatesv1.CertificateSigningRequest) {
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.CheckSignature() != nil {
		a.Errorf("not a request: %v", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signed, a.asked = append(a.signed, request), append(a.asked, csr.Spec)
	csr.Name, csr.UID = fmt.Sprint("csr-", len(a.signed)), "u"
	csr.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions:  []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue}},
		Certificate: a.issue(request.Subject, request.PublicKey, int64(len(a.signed)+1), time.Hour),
	}
}

func (a *authority) issue(subject pkix.Name, key any, serial int64, lifetime time.Duration) []byte {
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: subject, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key))(a)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *authority) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// serve starts an API server that answers with the subject and the serial number of the client certificate.
func (a *authority) serve() string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			fmt.Fprint(w, "anonymous")
			return
		}
		c := r.TLS.PeerCertificates[0]
		fmt.Fprint(w, c.Subject.CommonName, " of ", c.Subject.Organization, " with ", c.SerialNumber)
	}))
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	s.StartTLS()
	a.Cleanup(s.Close)
	return s.URL
}

// kubeconfig writes a kubeconfig for a server. user has its user's fields.
func (a *authority) kubeconfig(name, url, user string) string {
	path := filepath.Join(a.TempDir(), name)
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {%s}}]\n", url, user)
	must.Do(a, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// pair writes a certificate of the node, which is valid for lifetime, and its key.
func (a *authority) pair(lifetime time.Duration) (certFile, keyFile string) {
	dir := a.TempDir()
	certFile, keyFile = filepath.Join(dir, "old.crt"), filepath.Join(dir, "old.key")
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	text := must.Get(keyutil.MarshalPrivateKeyToPEM(key))(a)
	certPEM := a.issue(subject("n1"), &key.PublicKey, 1, lifetime)
	if os.WriteFile(certFile, certPEM, 0o600) != nil || os.WriteFile(keyFile, text, 0o600) != nil {
		a.Fatal("cannot be written")
	}
	return certFile, keyFile
}

// start runs a Client, and records the tokens with which it requests certificates.
func (a *authority) start(c ClientConfig) (client *Client, with *[]string) {
	with = new([]string)
	client = must.Get(NewClient(c))(a)
	client.connect = func(c *rest.Config) (kubernetes.Interface, error) {
		*with = append(*with, c.BearerToken)
		return a.kube, nil
	}
	must.Go(a, client.Run)
	wait, done := context.WithTimeout(a.Context(), time.Minute)
	defer done()
	must.Do(a, client.Ready(wait))
	return client, with
}

// ask returns the user that the API server sees in a request.
func ask(t *testing.T, c *rest.Config) string {
	t.Helper()
	transport := must.Get(rest.TransportFor(c))(t)
	resp := must.Get((&http.Client{Transport: transport}).Get(c.Host))(t)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

const node = "system:node:n1 of [system:nodes] with "

// A node without a kubeconfig obtains a certificate with a token. The next agent needs only the files.
func TestFirstCertificate(t *testing.T) {
	a := newAuthority(t)
	url, dir := a.serve(), t.TempDir()
	config := ClientConfig{
		Kubeconfig: filepath.Join(dir, "new", "kubelet.conf"), Bootstrap: a.kubeconfig("bootstrap", url, "token: s3cret"),
		Rotate: true, Dir: filepath.Join(dir, "pki"), NodeName: "n1",
	}
	client, with := a.start(config)
	if got := ask(t, client.REST()); got != node+"2" {
		t.Errorf("asked by %q, want %v", got, node+"2")
	}
	if len(*with) != 1 || (*with)[0] != "s3cret" {
		t.Errorf("asked for with %q", *with)
	}
	spec := a.asked[0]
	if spec.SignerName != "kubernetes.io/kube-apiserver-client-kubelet" || fmt.Sprint(spec.Usages) != "[digital signature client auth]" {
		t.Errorf("asked for %+v", spec)
	}
	text, err := os.ReadFile(config.Kubeconfig)
	if err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf("the kubeconfig is %s, %v", text, err)
	}
	for _, path := range []string{config.Kubeconfig, filepath.Join(dir, "pki", "kubelet-client-current.pem")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0o600 and no error", path, info, err)
		}
	}
	config.Bootstrap = ""
	again, _ := a.start(config)
	if got := ask(t, again.REST()); got != node+"2" || a.requests() != 1 {
		t.Errorf("after another start asked by %q, after %d requests", got, a.requests())
	}
}

// A node with a valid certificate keeps its credentials; a node with an expired one obtains new credentials.
func TestBootstrapIsUsedWithoutACertificate(t *testing.T) {
	for name, lifetime := range map[string]time.Duration{"valid": time.Hour, "expired": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			url := a.serve()
			certFile, keyFile := a.pair(lifetime)
			client, _ := a.start(ClientConfig{
				Kubeconfig: a.kubeconfig("kubelet.conf", url, fmt.Sprintf("client-certificate: %s, client-key: %s", certFile, keyFile)),
				Bootstrap:  a.kubeconfig("bootstrap", url, "token: s3cret"), Dir: t.TempDir(), NodeName: "n1",
			})
			want := node + "1"
			if lifetime < 0 {
				want = node + "2"
			}
			if got := ask(t, client.REST()); got != want {
				t.Errorf("asked by %q, want %q", got, want)
			}
		})
	}
}

// A certificate that expires soon is renewed, and the next connection presents the new one, without a restart.
func TestRotation(t *testing.T) {
	a := newAuthority(t)
	certFile, keyFile := a.pair(5 * time.Second) // of more than a minute, so that it is due for renewal
	url := a.serve()
	client := must.Get(NewClient(ClientConfig{
		Kubeconfig: a.kubeconfig("kubelet.conf", url, fmt.Sprintf("client-certificate: %s, client-key: %s", certFile, keyFile)),
		Rotate:     true, Dir: t.TempDir(), NodeName: "n1",
	}))(t)
	if got := ask(t, client.REST()); got != node+"1" {
		t.Fatalf("asked by %q, want %v", got, node+"1")
	}
	client.connect = func(*rest.Config) (kubernetes.Interface, error) { return a.kube, nil }
	must.Go(t, client.Run)
	for range 600 {
		if a.requests() > 0 && client.manager.Current() != nil && client.manager.Current().Leaf.SerialNumber.Int64() == 2 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	client.dialer.CloseAll() // as follow does at its next check
	if got := ask(t, client.REST()); got != node+"2" {
		t.Errorf("asked by %q, want %v", got, node+"2")
	}
}

// After its certificate has expired, a node makes no requests: without a certificate the API server would treat it as an
// anonymous user, which must not read the node's objects. The error is not an API error, so that the caller does not
// mistake it for an API server answer.
func TestE5_NoRequestsWithoutACertificate(t *testing.T) {
	a := newAuthority(t)
	url := a.serve()
	certFile, keyFile := a.pair(-time.Minute)
	client := must.Get(NewClient(ClientConfig{
		Kubeconfig: a.kubeconfig("kubelet.conf", url, fmt.Sprintf("client-certificate: %s, client-key: %s", certFile, keyFile)),
		Rotate:     true, Dir: t.TempDir(), NodeName: "n1",
	}))(t)
	heartbeat, _ := client.Heartbeat(time.Minute)
	for name, c := range map[string]*rest.Config{"main": client.REST(), "heartbeats": heartbeat} {
		kube, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kube.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
		var answer apierrors.APIStatus
		if !errors.Is(err, errNoCertificate) || errors.As(err, &answer) {
			t.Errorf("%s: the request returns %v, want %v", name, err, errNoCertificate)
		}
	}
}

func TestKubeconfigThatIsNoneIsAnError(t *testing.T) {
	for name, c := range map[string]ClientConfig{
		"Kubeconfig": {}, "/missing": {Kubeconfig: "/missing"}, "NodeName": {Kubeconfig: "/missing", Rotate: true},
		"/away": {Kubeconfig: "/missing", Bootstrap: "/away", Dir: "/pki", NodeName: "n1"},
	} {
		if _, err := NewClient(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

func TestServingCertificate(t *testing.T) {
	a := newAuthority(t)
	var mu sync.Mutex
	addresses := []v1.NodeAddress{}
	s, err := NewServing(ServingConfig{Kube: a.kube, NodeName: "n1", Dir: t.TempDir(), Addresses: func() []v1.NodeAddress {
		mu.Lock()
		defer mu.Unlock()
		return addresses
	}})
	if err != nil {
		t.Fatal(err)
	}
	must.Go(t, s.Run)
	if _, err := s.Certificate(); err == nil || a.requests() != 0 {
		t.Errorf("%v after %d requests, and no address is known", err, a.requests())
	}
	mu.Lock()
	addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "n1"}, {Type: v1.NodeInternalDNS, Address: "n1"}}
	mu.Unlock()
	for range 600 {
		if _, err = s.Certificate(); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	request := a.signed[0]
	if a.asked[0].SignerName != "kubernetes.io/kubelet-serving" || len(request.IPAddresses) != 1 || fmt.Sprint(request.DNSNames) != "[n1]" ||
		request.Subject.CommonName != "system:node:n1" {
		t.Errorf("asked for %+v of %+v", request, a.asked[0])
	}
}

func TestSelfSigned(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, err := SelfSigned(dir, "n1", []net.IP{net.IPv4(10, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	first, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil || first.Leaf.VerifyHostname("10.0.0.1") != nil || first.Leaf.VerifyHostname("n1") != nil {
		t.Errorf("%v, %v", first.Leaf, err)
	}
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	for _, again := range []bool{false, true} {
		if again {
			_ = os.WriteFile(certFile, []byte("broken"), 0o600)
		}
		if _, _, err := SelfSigned(dir, "n1", nil); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil || pair.Leaf.Equal(first.Leaf) == again {
			t.Errorf("made anew: %t, %v", !again, err)
		}
	}
}

// RenewSelfSigned renews the certificate before it expires, while the agent runs.
func TestSelfSignedIsRenewed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ips := func() []net.IP { return []net.IP{net.IPv4(10, 0, 0, 1)} }
		certFile, keyFile, err := SelfSigned(dir, "n1", ips())
		if err != nil {
			t.Fatal(err)
		}
		go RenewSelfSigned(ctx, dir, "n1", ips, func(err error) { t.Error(err) })
		for range 400 {
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if pair, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil || time.Until(pair.Leaf.NotAfter) < 29*24*time.Hour {
				t.Fatalf("the certificate ends in %v, %v", time.Until(pair.Leaf.NotAfter), err)
			}
		}
		cancel()
		must.Do(t, os.WriteFile(certFile, nil, 0o600))
	})
}
