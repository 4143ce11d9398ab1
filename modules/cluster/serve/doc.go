// Package serve serves a server.Server over TLS to an API server and to other peers, and asks
// the API server which user a request is of and what the user may do.
//
// A user is known by a client certificate of an authority, or by a token that a TokenReview
// accepts. A SubjectAccessReview decides what the user may do. Accepted and refused answers are
// cached; a review that failed is not.
//
// # Strangers
//
// A peer is a stranger until one of its requests is admitted: authenticated and authorized. What
// strangers hold is bounded for each address and in total: connections, requests that are
// answered at a time, requests of a connection, and the life of a connection. The address with
// the most connections or requests gives way, so that a flood of one address leaves room for all
// others. Peers that were admitted are not bounded by that, nor are credentials that were admitted
// in the last minutes. A request whose client certificate is verified takes no place of strangers.
//
// What an admitted user holds is bounded, too: requests that are answered at a time, and
// connections. A peer has to take some of each answer within a time, unless the handler sets a
// deadline of its own, as streams and logs do.
//
//	serve.go      Serve: TLS, at a port, and its limits
//	health.go     Health: /healthz without TLS
//	peers.go      connections and requests of peers; strangers.go who of them has to give way
//	writer.go     how long a peer may take for an answer
//	authn.go      Authenticator; authz.go Authorizer; reviews.go how many ask at a time
//	remember.go   the answers that are cached
//	files.go      certificates and authorities of files that are replaced
package serve
