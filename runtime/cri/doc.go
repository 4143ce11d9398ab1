// Package cri connects to a container runtime with CRI v1. It provides a connection with timeouts that survives runtime
// restarts, error classes, and pod owners. A program imports it to connect, whether it embeds an agent or makes single
// calls.
//
// [Dial] connects. Its result implements both generated CRI clients; most packages in this module accept only the
// methods they need (such as [Execer]), so other clients and wrappers can be used too. Syncer, Loop and Agent take a
// [Client]: [New] makes one from any implementation, also without gRPC, and [NewClient] from any connection, with the
// same timeouts: without them, a call to a runtime that hangs ends only with its context.
//
// # Errors
//
// The generated clients return gRPC statuses, and runtimes use the codes inconsistently. Only
// [Classify] interprets codes and texts; all other code tests for a [Class] with errors.Is. After
// an [Ambiguous] error the outcome is unknown: inspect the state before you repeat the call.
//
// # Ownership of pods
//
// A runtime may serve several agents. Every object that podsync creates has a label with its agent's
// name, and by default an agent sees only its own objects; see [Owner].
package cri

// Where each rule lives:
//
//	dial.go       Dial and Client; endpoint.go and pipe_*.go the runtime's address
//	exec.go       limits the memory of command output
//	bounded.go    New: a Client of any implementation
//	timeouts.go   timeouts of calls; insist.go repeats calls that hang
//	roles.go      interfaces with the methods that other packages need
//	errors.go     classes of errors, and which are ambiguous
//	texts.go      the bound on their texts
//	owner.go      the owner of a sandbox or container
