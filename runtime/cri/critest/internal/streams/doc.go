// Package streams serves exec, attach and port-forward of an in-memory runtime, over SPDY and WebSocket.
//
//	server.go    URLs, and the connections to them
//	exec.go      the streams of processes; console.go the input and output of a process
//	attach.go    the clients that are attached to a process
//	input.go     standard input; terminal.go the keys and the screen of a terminal
//	channel.go   the channels of a process; spdy.go the same over SPDY
//	port.go      ports of a pod; port_spdy.go the same over SPDY
package streams
