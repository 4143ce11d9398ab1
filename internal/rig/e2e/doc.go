// Package e2e tests the project's promises on real container runtimes.
//
// The tests of edge_fake_test.go need no runtime: they connect the parts on an in-memory runtime. The others need root and a
// runtime, and are skipped without them:
//
//	endpoint=$(internal/rig/e2e/containerd.sh up 2.4 /tmp/e2e-24)
//	PODSYNC_E2E=$endpoint go test ./internal/rig/e2e/...
//	internal/rig/e2e/containerd.sh down 2.4 /tmp/e2e-24
//
// CRI-O takes some minutes to build for the first time, so CI does not run these tests:
//
//	endpoint=$(internal/rig/e2e/crio.sh up /tmp/e2e-crio)
//	PODSYNC_E2E=$endpoint go test ./internal/rig/e2e/...
//	internal/rig/e2e/crio.sh down /tmp/e2e-crio
//
// TestAgent and similar tests run examples/nodeagent, as it is built, with a pod for each feature, on all endpoints
// concurrently. An agent treats pods of the same kind that others have created there as orphans, and stops them.
//
// TestKill9OfTheAgent and TestKill9OfTheRuntime kill the agent or the runtime four times; with PODSYNC_KILL9_ROUNDS=20
// twenty times.
//
// TestHostileContainers makes containers attack an agent and its node, with each attack once. PODSYNC_HOSTILE=1h instead
// draws attacks at random for that long on each endpoint, from a seed that the test logs; PODSYNC_HOSTILE_SEED repeats it.
// The program in hostile is both the agent and the attacks.
//
// TestUsualPodsOnRuntimes, with PODSYNC_USUAL=1, and TestUsualPodsOfAKubelet, with the path of a kubelet in PODSYNC_KUBELET, compare
// pods as people write them with the runtime in memory, where TestUsualPods runs them.
//
// PODSYNC_E2E is one endpoint, or several separated by commas. The directory should have a short path: that of a unix socket
// is limited to 107 bytes.
package e2e
