// Package serve lets an API server, and whoever else may, ask a node: it serves a
// server.Server over TLS, and asks the API server who may what.
//
// Who asks is known by a client certificate of a CA, or by a token that a TokenReview says
// is one. Whether they may is answered by a SubjectAccessReview. Answers are kept for a
// while, and none that failed is.
//
//	serve.go     Serve: TLS, at a port
//	authn.go     Authenticator; authz.go Authorizer; remember.go what they have been told
package serve
