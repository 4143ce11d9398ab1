package certificates

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	// interval is the time between looks for another certificate.
	interval = 10 * time.Second

	dialTimeout, keepAlive, handshakeTimeout = 30 * time.Second, 30 * time.Second, 10 * time.Second
	idleConnections                          = 25
)

// showCurrent has connections show the certificate that the manager has when they are made.
func (c *Client) showCurrent() error {
	bare := rest.CopyConfig(c.rest)
	bare.CertFile, bare.KeyFile, bare.CertData, bare.KeyData = "", "", nil, nil
	config, err := rest.TLSConfigFor(bare)
	if err != nil {
		return err
	}
	if config == nil {
		config = &tls.Config{}
	}
	config.MinVersion = tls.VersionTLS12
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if now := c.manager.Current(); now != nil {
			return now, nil
		}
		return &tls.Certificate{}, nil // none
	}
	c.dialer = connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
	c.rest.Transport = utilnet.SetTransportDefaults(&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: handshakeTimeout, TLSClientConfig: config,
		MaxIdleConnsPerHost: idleConnections, DialContext: c.dialer.DialContext,
	})
	c.rest.TLSClientConfig = rest.TLSClientConfig{} // it is in the transport
	return nil
}

// follow closes connections that show another certificate than the newest, so that they are
// made anew.
func (c *Client) follow(ctx context.Context) {
	shown := c.manager.Current()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		now := c.manager.Current()
		switch {
		case now == shown:
		case now == nil:
			c.config.Log.Info("The client certificate of the node has expired")
		default:
			c.config.Log.Info("The node has a new client certificate", "until", now.Leaf.NotAfter)
			c.dialer.CloseAll()
		}
		shown = now
	}
}
