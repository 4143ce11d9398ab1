// Package websocket sends messages over a WebSocket (RFC 6455), as far as the streams of Kubernetes need it: binary
// messages in both directions. Package server imports it, and so may a client or server of such streams.
//
// It does not support extensions or text messages. A message may have 1 MiB at most, and memory grows only with the bytes
// that arrive, so that a hostile peer costs little. The caller provides the connection and its deadlines, and closes what
// Accept and Dial return. A kubelet has k8s.io/streaming for it; docs/ARCHITECTURE.md compares the two.
package websocket

// The files:
//
//	handshake.go  Check, Accept and Dial
//	conn.go       messages; frame.go frames
