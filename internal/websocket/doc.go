// Package websocket sends messages over a WebSocket (RFC 6455), as far as the streams of Kubernetes
// need it: binary messages in both directions.
//
// It does not support extensions or text messages. A message may have 1 MiB at most.
// docs/ARCHITECTURE.md compares this package with other libraries.
//
//	handshake.go  Check, Accept and Dial
//	conn.go       messages; frame.go frames
package websocket
