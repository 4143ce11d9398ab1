package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/certificates"
	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/cluster/internal/together"
	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/modules/cluster/serve"
	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/syncpod/server"
)

// firstBackOff is the first back-off for a container that crashes.
const firstBackOff = 10 * time.Second

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// serve serves the API of the node until ctx ends.
func (a *agent) serve(ctx context.Context, p *parts) error {
	k := a.kubelet
	if !*k.EnableServer {
		<-ctx.Done()
		return nil
	}
	clients, err := a.clients()
	if err != nil {
		return err
	}
	var tokens kubernetes.Interface
	if *k.Authentication.Webhook.Enabled {
		tokens = a.reviews
	}
	certificate, run, err := a.certificate(p.node)
	if err != nil {
		return err
	}
	served := func() *tls.Certificate {
		now, _ := certificate() // without a certificate there is an error
		return now
	}
	collectors := slices.Concat(a.api.collectors(a.client.Certificate, served), a.podResources.collectors())
	metrics, err := a.metrics.Handler(p.loop, append(collectors, prometheus.Volumes(p.csi.VolumeStats))...)
	if err != nil {
		return err
	}
	restrictions, err := config.TLS(k)
	if err != nil {
		return err
	}
	authz := k.Authorization.Webhook
	checkpoints := filepath.Join(a.root, "checkpoints")
	if err := os.MkdirAll(checkpoints, 0o700); err != nil {
		return err
	}
	s, err := server.New(server.Config{
		Agent: p.loop, Client: a.runtime, NodeName: a.name, Metrics: metrics, Stats: p.loop.Stats(), VolumeStats: p.csi.VolumeStats, Log: a.log,
		Configz:       map[string]any{"kubeletconfig": config.Effective(k)},
		Authenticator: serve.NewAuthenticator(tokens, clients, k.Authentication.Webhook.CacheTTL.Duration),
		NodeLogs:      nodeLogs(k), Checkpoints: checkpoints,
		NoDebugging: !*k.EnableDebuggingHandlers, StreamIdleTimeout: k.StreamingConnectionIdleTimeout.Duration,
		Authorizer: serve.NewAuthorizer(a.reviews, authz.CacheAuthorizedTTL.Duration, authz.CacheUnauthorizedTTL.Duration),
	})
	if err != nil {
		return err
	}
	return together.Run(ctx, run, func(ctx context.Context) error {
		return serve.Serve(ctx, serve.Config{Handler: s, Address: net.JoinHostPort(k.Address, strconv.Itoa(int(k.Port))), Certificate: certificate, Clients: clients, TLS: restrictions, Log: a.log})
	})
}

// nodeLogs returns the machine's log directory, as a kubelet serves it, or "" if enableSystemLogHandler is false.
func nodeLogs(k *kubelet.KubeletConfiguration) string {
	if !*k.EnableSystemLogHandler {
		return ""
	}
	return "/var/log"
}

// serveHealth answers /healthz for peers on this machine until ctx ends, unless healthzPort is 0.
func (a *agent) serveHealth(ctx context.Context) error {
	if port := int(*a.kubelet.HealthzPort); port != 0 {
		serve.Health(ctx, net.JoinHostPort(a.kubelet.HealthzBindAddress, strconv.Itoa(port)), a.log)
	}
	return nil
}

// certificate returns the serving certificate, and the function that renews it: it is requested,
// read from files, or self-signed.
func (a *agent) certificate(n *node.Node) (get func() (*tls.Certificate, error), run func(context.Context) error, err error) {
	k := a.kubelet
	nothing := func(context.Context) error { return nil }
	if k.ServerTLSBootstrap {
		s, err := certificates.NewServing(certificates.ServingConfig{
			Kube: a.kube, NodeName: a.name, Addresses: func() []v1.NodeAddress { return n.Object().Status.Addresses },
			Dir: a.certDir, CertFile: k.TLSCertFile, KeyFile: k.TLSPrivateKeyFile, RenewFailures: a.api.serverErrors, Log: a.log,
		})
		if err != nil {
			return nil, nil, err
		}
		return s.Certificate, func(ctx context.Context) error { s.Run(ctx); return nil }, nil
	}
	certFile, keyFile, run := k.TLSCertFile, k.TLSPrivateKeyFile, nothing
	if certFile == "" {
		if certFile, keyFile, err = certificates.SelfSigned(a.certDir, a.name, a.ownIPs()); err != nil {
			return nil, nil, err
		}
		run = func(ctx context.Context) error {
			certificates.RenewSelfSigned(ctx, a.certDir, a.name, a.ownIPs, func(err error) { a.log.Error(err, "The certificate of the server cannot be renewed") })
			return nil
		}
	}
	get, err = serve.Files(certFile, keyFile, func(err error) {
		a.log.Error(err, "The certificate of the server cannot be read again", "path", certFile)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("tlsCertFile: %w", err)
	}
	return get, run, nil
}

// ownIPs returns the addresses in a self-signed certificate.
func (a *agent) ownIPs() (ips []net.IP) {
	for _, ip := range a.addresses() {
		ips = append(ips, ip.AsSlice())
	}
	return ips
}

// clients returns a function that returns the CAs of client certificates, nil if there are none.
func (a *agent) clients() (func() *x509.CertPool, error) {
	path := a.kubelet.Authentication.X509.ClientCAFile
	if path == "" {
		return nil, nil
	}
	get, err := serve.Authorities(path, func(err error) {
		a.log.Error(err, "The authorities of client certificates cannot be read again", "path", path)
	})
	if err != nil {
		return nil, fmt.Errorf("authentication.x509.clientCAFile: %w", err)
	}
	return get, nil
}
