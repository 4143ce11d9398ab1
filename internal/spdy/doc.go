// Package spdy multiplexes streams over a connection with SPDY 3.1, as far as the streams of
// Kubernetes need it.
//
// A [Client] opens streams, and a [Server] accepts them; both may send on each stream until they close it. There is no flow
// control, as in the streaming servers of runtimes and in client-go: a reader that stops reading one stream blocks the
// whole connection.
//
// Memory is bounded for a peer that sends without end and for one that does not read;
// docs/ARCHITECTURE.md compares this package with other libraries.
package spdy

// The files:
//
//	conn.go    messages
//	frame.go   frames
//	header.go  the headers of streams; dictionary.go their compression dictionary
