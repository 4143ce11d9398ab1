// Package e2e tests a node in a real cluster, with a control plane and a container runtime, and kills processes. The
// tests need a directory that describes the cluster, and are skipped without it:
//
//	PODSYNC_E2E_DIR=DIR go test -count=1 -timeout 30m ./e2e
//
// DIR contains admin.kubeconfig, an administrator's kubeconfig, and the process IDs of the agent and of the API server in
// kubelet.pid and kube-apiserver.pid. The tests kill both, and restart them with the same arguments and environment. So
// the tests run as root, on the node's machine, and in the network namespace of these processes. The cluster has one
// node, n1, and nothing else runs on it.
//
//	PODSYNC_E2E_IMAGE   an image with a shell. Default registry.k8s.io/e2e-test-images/busybox:1.37.0-1
//	PODSYNC_E2E_PAUSE   an image that exits immediately when it is stopped. Default registry.k8s.io/pause:3.10.2
//	PODSYNC_E2E_AUDIT   the API server's audit log, from which requests are counted. Default: they are not counted
//	PODSYNC_HOURS       the duration of TestHostileHours, such as 5m or 1h. Default: it is skipped
//	PODSYNC_SOAK        the duration of TestSoak. Default: it is skipped
//	PODSYNC_REPLACE_*   the kubelet (KUBELET) and the podsync-node (NODE) of TestKubeletIsReplaced. Default: it is skipped
//
// TestHostileHours kills the agent, the API server and containerd, and interrupts the agent's connections to the API
// server with a proxy that drops, delays and half-opens them, while controllers replace pods. Every 5 s it checks the
// node against the rules of package hours: suite.sh hours DIR.
//
// TestSoak checks a busy node against the same rules, and fails if the memory, the goroutines, the file descriptors or the
// watches of the agent grow: suite.sh soak DIR.
//
// TestKubeletIsReplaced replaces a kubelet by podsync-node, and back, as REPLACE.md says: suite.sh replace DIR.
//
// TestMeasure prints a table of the durations of pods and the resource usage of the agent, which is podsync-node or a
// kubelet. Run it alone, with -run Measure.
package e2e
