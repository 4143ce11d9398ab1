// Package e2e runs what the project promises against real container runtimes.
//
// Those of edge_fake_test.go need none: they put the parts together on a runtime
// in memory. The others need root and a runtime, and are skipped without:
//
//	endpoint=$(internal/rig/e2e/containerd.sh up 2.4 /tmp/e2e-24)
//	PODSYNC_E2E=$endpoint go test ./internal/rig/e2e/...
//	internal/rig/e2e/containerd.sh down 2.4 /tmp/e2e-24
//
// CRI-O takes some minutes to build for the first time, and so is no part of CI:
//
//	endpoint=$(internal/rig/e2e/crio.sh up /tmp/e2e-crio)
//	PODSYNC_E2E=$endpoint go test ./internal/rig/e2e/...
//	internal/rig/e2e/crio.sh down /tmp/e2e-crio
//
// TestAgent and its like run examples/nodeagent, built as it is, with a pod for each
// thing that pods do, on all endpoints at once. An agent takes pods of its kind that
// others have made there for left behind, and stops them.
//
// TestKill9OfTheAgent and TestKill9OfTheRuntime kill the runtime or the agent four
// times; PODSYNC_KILL9_ROUNDS=20 has them do it twenty times.
//
// TestHostileContainers has containers attack an agent and its node, each attack once;
// PODSYNC_HOSTILE=1h draws attacks at random for so long on each endpoint, from a seed that
// it logs and PODSYNC_HOSTILE_SEED repeats. The program in hostile is both sides of it.
//
// PODSYNC_E2E is one endpoint or several, with commas between them. The
// directory should have a short path: a unix socket's is limited to 107 bytes.
package e2e
