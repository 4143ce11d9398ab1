// Package clients holds syncpod/server to the clients that are to be served: client-go's
// executors and its port forwarder, metrics-server with its decoder and storage, the types
// that others decode figures into, and Prometheus' parser. It is a module of its own,
// because the library depends on none of these.
//
// Without PODSYNC_E2E the runtime is critest, also with the streaming server that
// containerd and CRI-O are built with. With it, each endpoint of
// PODSYNC_E2E is tried as well; see package e2e.
package clients
