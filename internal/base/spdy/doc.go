// Package spdy carries streams over a connection as SPDY 3.1 does: as much of it as the
// streams of Kubernetes need.
//
// A [Client] opens streams, and a [Server] answers them; both may send on each until they
// say that they do not any more. There is no flow control, which the streaming servers of
// runtimes and client-go do not have either: who does not read a stream holds up all of
// its connection.
//
// Memory is bounded for a peer that sends without end and for one that does not read;
// docs/ARCHITECTURE.md compares this with the libraries of the field.
//
//	conn.go    what is sent and read
//	frame.go   what that is cut into
//	header.go  the headers of a stream; dictionary.go what they are compressed with
package spdy
