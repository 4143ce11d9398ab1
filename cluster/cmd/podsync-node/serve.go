package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/cluster/serve"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/server"
)

// firstBackOff is the first wait before a container that crashes is started again.
const firstBackOff = 10 * time.Second

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// serve serves the API of the node until ctx ends.
func (a *agent) serve(ctx context.Context, l *loop.Loop) error {
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
		tokens = a.kube
	}
	metrics, err := a.metrics.Handler(l)
	if err != nil {
		return err
	}
	figures, err := stats.New(stats.Config{Runtime: a.runtime, Dir: a.root})
	if err != nil {
		return err
	}
	authz := k.Authorization.Webhook
	s, err := server.New(server.Config{
		Agent: l, Runtime: a.runtime, NodeName: a.name, Metrics: metrics, Stats: figures, Log: a.log,
		Authenticator: serve.NewAuthenticator(tokens, clients, k.Authentication.Webhook.CacheTTL.Duration),
		Authorizer:    serve.NewAuthorizer(a.kube, authz.CacheAuthorizedTTL.Duration, authz.CacheUnauthorizedTTL.Duration),
	})
	if err != nil {
		return err
	}
	return serve.Serve(ctx, serve.Config{
		Handler: s, Address: net.JoinHostPort(k.Address, strconv.Itoa(int(k.Port))), Certificate: serve.Files(k.TLSCertFile, k.TLSPrivateKeyFile),
	})
}

// clients are the authorities of client certificates, nil if there are none.
func (a *agent) clients() (*x509.CertPool, error) {
	path := a.kubelet.Authentication.X509.ClientCAFile
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("authentication.x509.clientCAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authentication.x509.clientCAFile: there is no certificate in %s", path)
	}
	return pool, nil
}
