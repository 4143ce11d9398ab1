// Package websocket sends messages over a WebSocket (RFC 6455): as much of it as the
// streams of Kubernetes need, which are binary messages in both directions.
//
// Extensions and text messages are not offered. A message has 1 MiB at most.
// docs/ARCHITECTURE.md compares this package with the libraries of the field.
//
//	handshake.go  Check, Accept and Dial
//	conn.go       messages; frame.go what they are cut into
package websocket
