package serve

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
)

// listenInterval is the time between two attempts to listen.
const listenInterval = 5 * time.Second

// Health answers GET /healthz at an address until ctx ends, without TLS and to any peer: "ok", as
// long as the process runs. The answer does not depend on anything else. If it cannot listen, for
// example because a kubelet still has the address, Health logs the error and retries every 5 s until
// ctx ends.
func Health(ctx context.Context, address string, log logr.Logger) {
	for {
		lis := listen(ctx, address, log)
		if lis == nil {
			return
		}
		if err := health(ctx, lis, log); ctx.Err() == nil {
			log.Error(err, "The health of the agent cannot be served", "address", address)
		}
		pause(ctx)
	}
}

// listen listens at an address. If it cannot, it logs the error and retries every listenInterval. It
// returns nil when ctx ends.
func listen(ctx context.Context, address string, log logr.Logger) net.Listener {
	for ctx.Err() == nil { // for an IP address Listen ignores its context
		lis, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			return lis
		}
		if ctx.Err() == nil {
			log.Error(err, "The agent cannot listen at its address and tries again", "address", address)
		}
		pause(ctx)
	}
	return nil
}

// pause waits for listenInterval, or until ctx ends.
func pause(ctx context.Context) {
	select {
	case <-time.After(listenInterval):
	case <-ctx.Done():
	}
}

// health serves until ctx ends. Its peers have the same limits as Serve's strangers.
func health(ctx context.Context, lis net.Listener, log logr.Logger) error {
	mux := http.NewServeMux()
	for _, path := range []string{"GET /healthz", "GET /healthz/ping"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok") // the peer may have disconnected
		})
	}
	all := newPeers(nil)
	server := newServer(Config{Handler: mux, TLS: &tls.Config{}, Log: log}, all)
	return until(ctx, server, func() error { return server.Serve(peerListener{lis, all}) })
}
