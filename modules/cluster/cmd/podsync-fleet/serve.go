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

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/certificates"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/serve"
)

const (
	// tokenTTL, allowedTTL and deniedTTL are a kubelet's defaults for cached answers of the API server.
	tokenTTL, allowedTTL, deniedTTL = 2 * time.Minute, 5 * time.Minute, 30 * time.Second
	// metricsTimeout bounds a request for metrics.
	metricsTimeout = 10 * time.Second
	// metricsRequests is the maximum number of concurrent requests for metrics.
	metricsRequests = 4
)

// serveNodes serves the nodes' API, for kubectl logs and exec, until ctx ends.
func serveNodes(ctx context.Context, o options, kube kubernetes.Interface, f *fleet.Fleet) (err error) {
	at := netip.MustParseAddrPort(o.listen) // parse has checked it
	cert, key := o.cert, o.key
	if cert == "" {
		if cert, key, err = certificates.SelfSigned(filepath.Join(o.dir, "pki"), "podsync-fleet", []net.IP{at.Addr().AsSlice()}); err != nil {
			return err
		}
	}
	discard := func(error) {} // the last certificate stays in use
	certificate, err := serve.Files(cert, key, discard)
	if err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	c := serve.Config{Address: o.listen, Certificate: certificate}
	if o.clients != "" {
		if c.Clients, err = serve.Authorities(o.clients, discard); err != nil {
			return fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	c.Handler = f.Handler(serve.NewAuthenticator(kube, c.Clients, tokenTTL), serve.NewAuthorizer(kube, allowedTTL, deniedTTL))
	return serve.Serve(ctx, c)
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
