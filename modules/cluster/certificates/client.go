package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Kubeconfig is the file with the address of the API server and the node's credentials.
	// Required. With Bootstrap the file need not exist yet.
	Kubeconfig string
	// Bootstrap is a kubeconfig with credentials to request the first certificate. Default: none.
	Bootstrap string
	// Rotate renews the certificate before it expires.
	Rotate bool
	// Dir is the absolute path of the directory for issued certificates. Required with Bootstrap or
	// Rotate.
	Dir string
	// NodeName is the node's name. Required with Bootstrap or Rotate.
	NodeName string
	// RenewFailures counts failed requests for a certificate. Default: they are not counted.
	RenewFailures certificate.Counter
	// Log receives a line for each new certificate and for errors. Default: no log.
	Log logr.Logger
}

// A Client holds the node's credentials for the API server. Its methods may be called concurrently.
type Client struct {
	config ClientConfig
	rest   *rest.Config
	// bootstrap are the credentials to request the first certificate, nil if there are none.
	bootstrap *rest.Config
	// unwritten means that the kubeconfig must be written.
	unwritten bool
	// manager requests certificates, nil if there is no rotation.
	manager certificate.Manager
	store   certificate.FileStore
	// dialer opens the clients' connections, and heartbeats the heartbeat client's connections. Both present a
	// certificate with tls, which is nil if there is no manager.
	dialer, heartbeats *connrotation.Dialer
	tls                *tls.Config
	// connect creates an API server client; tests replace it.
	connect func(*rest.Config) (kubernetes.Interface, error)
}

// NewClient reads the kubeconfigs. It makes no request.
func NewClient(c ClientConfig) (*Client, error) {
	if c.Kubeconfig == "" {
		return nil, errors.New("certificates: ClientConfig.Kubeconfig is missing")
	}
	if (c.Bootstrap != "" || c.Rotate) && (c.Dir == "" || c.NodeName == "") {
		return nil, errors.New("certificates: ClientConfig.Dir or NodeName is missing")
	}
	client := &Client{config: c, dialer: newDialer(), heartbeats: newDialer(), connect: func(c *rest.Config) (kubernetes.Interface, error) { return kubernetes.NewForConfig(c) }}
	if err := client.chooseCredentials(); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return client, nil
}

// chooseCredentials chooses the credentials.
func (c *Client) chooseCredentials() error {
	own, err := load(c.config.Kubeconfig)
	switch {
	case c.config.Bootstrap == "":
		if err != nil {
			return err
		}
	case err != nil || expired(own):
		if c.bootstrap, err = load(c.config.Bootstrap); err != nil {
			return err
		}
		own, c.unwritten = rest.AnonymousClientConfig(c.bootstrap), true
	default:
		// The bootstrap credentials are needed when the certificate expires. Until then they may be
		// invalid.
		c.bootstrap, _ = load(c.config.Bootstrap)
	}
	c.rest = own
	if !c.unwritten && (!c.config.Rotate || !hasCertificate(own)) {
		return nil
	}
	if err := c.manage(own); err != nil {
		return err
	}
	return c.showCurrent()
}

// manage creates the certificate's manager.
func (c *Client) manage(own *rest.Config) (err error) {
	certFile, keyFile, certPEM, keyPEM := own.CertFile, own.KeyFile, own.CertData, own.KeyData
	if c.unwritten {
		certFile, keyFile, certPEM, keyPEM = "", "", nil, nil
	}
	if c.store, err = certificate.NewFileStoreWithLogger(c.config.Log.V(1), "kubelet-client", c.config.Dir, c.config.Dir, certFile, keyFile); err != nil {
		return err
	}
	logs := klog.NewContext(context.Background(), c.config.Log)
	c.manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn: c.clientset, Template: &x509.CertificateRequest{Subject: subject(c.config.NodeName)},
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, GetUsages: certificate.DefaultKubeletClientGetUsages,
		CertificateStore: c.store, BootstrapCertificatePEM: certPEM, BootstrapKeyPEM: keyPEM, CertificateRenewFailure: c.config.RenewFailures, Ctx: &logs,
	})
	return err
}

// subject returns a node's certificate subject.
func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// clientset returns a client that requests certificates: with the current certificate, or with the
// bootstrap credentials if there is none.
func (c *Client) clientset(current *tls.Certificate) (kubernetes.Interface, error) {
	if current == nil && c.bootstrap != nil {
		return c.connect(c.bootstrap)
	}
	return c.connect(c.rest)
}

// REST returns a configuration for clients, which the caller owns. Before Ready has returned, requests may have no
// certificate and count as anonymous.
func (c *Client) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// Certificate returns the current client certificate, nil if there is none or if it is not renewed.
func (c *Client) Certificate() *tls.Certificate {
	if c.manager == nil {
		return nil
	}
	return c.manager.Current()
}

// Run requests and renews certificates until ctx ends. It must be called once.
func (c *Client) Run(ctx context.Context) {
	if c.manager == nil {
		<-ctx.Done()
		return
	}
	c.manager.Start()
	defer c.manager.Stop()
	if !c.config.Rotate {
		if c.current(ctx) == nil {
			return
		}
		c.manager.Stop() // only the first certificate was required
	}
	c.follow(ctx)
}

// certificatePollInterval is the interval of checks for the first certificate.
const certificatePollInterval = 100 * time.Millisecond

// current waits for a certificate. It returns nil if ctx ends first.
func (c *Client) current(ctx context.Context) *tls.Certificate {
	for {
		if now := c.manager.Current(); now != nil {
			return now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(certificatePollInterval):
		}
	}
}

// Ready waits until the node has credentials. It writes the kubeconfig if the file did not exist or its certificate had
// expired. Run must be running. It returns an error if ctx ends first, or if the file cannot be written.
func (c *Client) Ready(ctx context.Context) error {
	if !c.unwritten {
		return nil
	}
	if c.manager.Current() == nil {
		c.config.Log.Info("Waiting for a first certificate", "node", c.config.NodeName, "apiServer", c.rest.Host)
	}
	if c.current(ctx) == nil {
		return ctx.Err()
	}
	if err := write(c.config.Kubeconfig, c.bootstrap, c.store.CurrentPath()); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	c.config.Log.Info("The kubeconfig is written", "path", c.config.Kubeconfig)
	return nil
}
