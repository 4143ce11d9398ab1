// Package serve serves a server.Server over TLS, and delegates authentication and authorization of requests to the API
// server. A cluster node imports it, so that kubectl logs and kubectl exec reach its pods.
//
// A user is authenticated by a client certificate, or by a token that a TokenReview accepts. A SubjectAccessReview
// authorizes the request. Positive and negative results are cached; errors are not.
//
// # Strangers
//
// A peer is a stranger until one of its requests is authenticated and authorized. The resources of strangers are limited
// for each address and in total: connections, concurrent requests, a connection's requests, and a connection's lifetime.
// At the limit, the address with the most connections or requests loses one, so that a flood from one address leaves room
// for all others. A new request never aborts a request with the same token, and a connection with a request in progress
// is closed last: otherwise a user who retries immediately would never see a review's end. Admitted peers are not
// affected, nor are credentials that were admitted in the last minutes. A request with a verified client certificate does
// not count as a stranger's.
//
// An admitted user's resources are limited too: concurrent requests and connections. A peer must read some of each
// response within a time limit, unless the handler sets its own deadline, as streams and logs do.
package serve

// The files:
//
//	serve.go      Serve: TLS on a port, and its limits
//	health.go     Health: /healthz without TLS
//	peers.go      connections and requests of peers; strangers.go which strangers are dropped
//	writer.go     the deadlines of responses
//	authn.go      Authenticator; authz.go Authorizer; reviews.go limits concurrent reviews
//	cache.go      cached results
//	files.go      certificates and authorities in files that are replaced
