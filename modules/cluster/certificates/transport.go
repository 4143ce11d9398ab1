package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

const (
	// interval is the interval of checks for a newer certificate.
	interval = 10 * time.Second

	dialTimeout, keepAlive, handshakeTimeout = 30 * time.Second, 30 * time.Second, 10 * time.Second
	idleConnections                          = 25
)

// errNoCertificate ends connections that would present no certificate. The API server would treat
// their requests as anonymous and deny them, and the denial could be mistaken for one of access to
// the object.
var errNoCertificate = errors.New("the node has no valid client certificate")

// showCurrent makes new connections present the manager's current certificate. Without a
// certificate no connection is made.
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
		return nil, errNoCertificate
	}
	c.tls = config
	c.rest.Transport = c.transport(c.dialer)
	c.rest.TLSClientConfig = rest.TLSClientConfig{} // the transport has the TLS configuration
	return nil
}

func newDialer() *connrotation.Dialer {
	return connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext)
}

// transport returns a RoundTripper that presents the current certificate on a dialer's connections.
func (c *Client) transport(d *connrotation.Dialer) http.RoundTripper {
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: handshakeTimeout, TLSClientConfig: c.tls.Clone(),
		MaxIdleConnsPerHost: idleConnections, DialContext: d.DialContext,
	})
}

// Heartbeat returns the configuration of a client with its own connections, which other requests
// cannot delay: without a rate limit, and with a timeout for each request. The function closes the
// connections, so that the next request opens a new one.
func (c *Client) Heartbeat(timeout time.Duration) (own *rest.Config, closeConnections func()) {
	own = rest.CopyConfig(c.rest)
	own.QPS, own.Timeout = -1, timeout
	if c.manager == nil || own.Transport == nil {
		own.Dial = c.heartbeats.DialContext
	} else {
		own.Transport = c.transport(c.heartbeats)
	}
	return own, c.heartbeats.CloseAll
}

// follow closes connections with an older certificate than the newest, so that clients reconnect.
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
			c.heartbeats.CloseAll()
		}
		shown = now
	}
}
