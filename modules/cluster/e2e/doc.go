// Package e2e holds tests of a node in a real cluster: with a control plane, a container
// runtime, and processes that are killed. They are run where a directory says what runs, and
// skipped elsewhere:
//
//	PODSYNC_E2E_DIR=DIR go test -count=1 -timeout 30m ./e2e
//
// DIR has admin.kubeconfig, the kubeconfig of an administrator, and the process IDs of the
// agent and the API server in kubelet.pid and kube-apiserver.pid. Both are killed, and
// started anew with the arguments and the environment that they had, so that the tests run as
// root on the machine of the node and where the processes do, in their network namespace. The
// cluster has one node, n1, and nothing else runs on it.
//
//	PODSYNC_E2E_IMAGE   an image with a shell. Default registry.k8s.io/e2e-test-images/busybox:1.37.0-1
//	PODSYNC_E2E_PAUSE   an image that exits immediately when it is stopped. Default registry.k8s.io/pause:3.10.2
//	PODSYNC_E2E_AUDIT   the API server's audit log, by which requests are counted. Default: they are not
//	PODSYNC_HOURS       how long TestHostileHours runs, such as 5m or 1h. Default: it is skipped
//
// TestHostileHours kills the agent, the API server and containerd, and cuts the agent off from the API server by a proxy
// that drops, delays and half-opens connections, while controllers replace pods. Every 5 s it holds the node
// against the rules of package hours: suite.sh hours DIR.
//
// TestMeasure is run with -run Measure alone, and prints a table of the durations of pods and
// the resource usage of the agent, podsync-node or a kubelet.
package e2e
