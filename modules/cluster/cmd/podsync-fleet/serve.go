package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/certificates"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/serve"
)

const (
	// tokenTTL, allowedTTL and deniedTTL are a kubelet's defaults for cached answers from the API
	// server.
	tokenTTL, allowedTTL, deniedTTL = 2 * time.Minute, 5 * time.Minute, 30 * time.Second
	// metricsTimeout bounds a request for metrics.
	metricsTimeout = 10 * time.Second
	// metricsRequests limits the concurrent requests for metrics.
	metricsRequests = 4
)

// nodesServer serves the nodes' API, for kubectl logs and exec.
type nodesServer struct {
	config        serve.Config
	authenticator *serve.Authenticator
	authorizer    *serve.Authorizer
}

// newNodesServer reads the certificates.
func newNodesServer(o options, kube kubernetes.Interface, log logr.Logger) (s nodesServer, err error) {
	cert, key := o.cert, o.key
	if cert == "" {
		at := netip.MustParseAddrPort(o.listen) // parse has checked it
		if cert, key, err = certificates.SelfSigned(filepath.Join(o.dir, "pki"), "podsync-fleet", []net.IP{at.Addr().AsSlice()}); err != nil {
			return s, err
		}
	}
	s.config = serve.Config{Address: o.listen, Log: log}
	if s.config.Certificate, err = serve.Files(cert, key, func(err error) { log.Error(err, "The certificate cannot be read again") }); err != nil {
		return s, fmt.Errorf("--tls-cert-file: %w", err)
	}
	if o.clients != "" {
		if s.config.Clients, err = serve.Authorities(o.clients, func(err error) { log.Error(err, "The authorities of clients cannot be read again") }); err != nil {
			return s, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	s.authenticator = serve.NewAuthenticator(kube, s.config.Clients, tokenTTL)
	s.authorizer = serve.NewAuthorizer(kube, allowedTTL, deniedTTL)
	return s, nil
}

// run serves until ctx ends.
func (s nodesServer) run(ctx context.Context, f *fleet.Fleet) error {
	s.config.Handler = f.Handler()
	return serve.Serve(ctx, s.config)
}

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, address string, r *report) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry(), promhttp.HandlerOpts{MaxRequestsInFlight: metricsRequests}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: metricsTimeout, WriteTimeout: metricsTimeout}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--metrics-bind-address: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns its error
	defer stop()
	if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--metrics-bind-address: %w", err)
	}
	return nil
}
