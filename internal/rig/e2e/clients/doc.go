// Package clients tests syncpod/server with the clients that it must serve: client-go's executors and its port forwarder, kubectl,
// metrics-server with its decoder and storage, the types into which other clients decode stats, and Prometheus' parser. It
// also checks docs/monitoring as promtool does. It is a separate module, because the library depends on none of these.
//
// Without PODSYNC_E2E the runtime is critest, once with its own streaming server and once with that of containerd and
// CRI-O. With PODSYNC_E2E, each of its endpoints is tested, too; see package e2e.
package clients
