package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/podsync/podsync/runtime/hostfs"
)

// ServingConfig configures a Serving.
type ServingConfig struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// NodeName is the node's name. Addresses returns its addresses, for which the certificate is
	// issued. Required.
	NodeName  string
	Addresses func() []v1.NodeAddress
	// Dir is the absolute path of the directory for certificates. Required.
	Dir string
	// CertFile and KeyFile contain an initial certificate. Default: none.
	CertFile, KeyFile string
	// RenewFailures counts failed requests for a certificate. Default: they are not counted.
	RenewFailures certificate.Counter
	// Log receives errors. Default: no log.
	Log logr.Logger
}

// A Serving renews the signed certificate of a node's server before it expires, and when the node's addresses
// change.
type Serving struct{ manager certificate.Manager }

// NewServing returns a Serving that makes no request before Run.
func NewServing(c ServingConfig) (*Serving, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("certificates: ServingConfig.Kube is missing")
	case c.NodeName == "" || c.Addresses == nil || c.Dir == "":
		return nil, errors.New("certificates: ServingConfig.NodeName, Addresses or Dir is missing")
	}
	store, err := certificate.NewFileStoreWithLogger(c.Log.V(1), "kubelet-server", c.Dir, c.Dir, c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	logs := klog.NewContext(context.Background(), c.Log)
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return c.Kube, nil },
		GetTemplate: func() *x509.CertificateRequest { return template(c.NodeName, c.Addresses()) },
		SignerName:  certificatesv1.KubeletServingSignerName, GetUsages: certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store, CertificateRenewFailure: c.RenewFailures, Ctx: &logs,
	})
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return &Serving{manager: manager}, nil
}

// template returns the request for a server certificate with the addresses, nil if there are none.
func template(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	request := &x509.CertificateRequest{Subject: subject(node)}
	for _, a := range addresses {
		if ip := net.ParseIP(a.Address); ip != nil {
			request.IPAddresses = append(request.IPAddresses, ip)
		} else if a.Address != "" {
			request.DNSNames = append(request.DNSNames, a.Address)
		}
	}
	if len(request.IPAddresses) == 0 {
		return nil
	}
	slices.SortFunc(request.IPAddresses, func(a, b net.IP) int { return slices.Compare(a, b) })
	slices.Sort(request.DNSNames)
	request.DNSNames = slices.Compact(request.DNSNames)
	return request
}

// Run requests and renews certificates until ctx ends. It must be called once.
func (s *Serving) Run(ctx context.Context) {
	s.manager.Start()
	defer s.manager.Stop()
	<-ctx.Done()
}

// Certificate returns the certificate, or an error if none is signed or it has expired.
func (s *Serving) Certificate() (*tls.Certificate, error) {
	if now := s.manager.Current(); now != nil {
		return now, nil
	}
	return nil, errors.New("there is no signed certificate of this node's server: its CertificateSigningRequest may wait for approval")
}

const (
	// renewBefore is the remaining validity at which a self-signed certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
	// renewInterval is the interval of checks whether the certificate expires soon.
	renewInterval = 24 * time.Hour
)

// RenewSelfSigned replaces SelfSigned's certificate before it expires, until ctx ends. failed is
// called with each error.
func RenewSelfSigned(ctx context.Context, dir, host string, ips func() []net.IP, failed func(error)) {
	ticks := time.NewTicker(renewInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		if _, _, err := SelfSigned(dir, host, ips()); err != nil {
			failed(err)
		}
	}
}

// SelfSigned creates a self-signed certificate that is valid for a year, in two files in dir,
// unless there is one that does not expire soon. Clients cannot verify the server's identity with
// it.
func SelfSigned(dir, host string, ips []net.IP) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	if text, err := hostfs.ReadPath(certFile, maxFile); err == nil {
		all, err := cert.ParseCertsPEM(text)
		_, pairErr := tls.LoadX509KeyPair(certFile, keyFile)
		if err == nil && pairErr == nil && time.Until(all[0].NotAfter) > renewBefore {
			return certFile, keyFile, nil
		}
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(host, ips, nil)
	if err != nil {
		return "", "", fmt.Errorf("certificates: %w", err)
	}
	if err := keyutil.WriteKey(keyFile, keyPEM); err != nil {
		return "", "", fmt.Errorf("certificates: %w", err)
	}
	if err := cert.WriteCert(certFile, certPEM); err != nil {
		return "", "", fmt.Errorf("certificates: %w", err)
	}
	return certFile, keyFile, nil
}
