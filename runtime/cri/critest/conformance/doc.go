// Package conformance holds a CRI runtime against what a node agent relies on,
// a rule at a time, each of them a sentence.
//
// [Run] is called from a test with a connection to the runtime: containerd, CRI-O,
// a runtime of one's own, or one that stands in for a runtime. It needs root where
// the runtime does, an image with busybox on the node, and a directory that both the
// test and the runtime see:
//
//	func TestMyRuntime(t *testing.T) {
//		dial := func(t *testing.T) *grpc.ClientConn {
//			conn, err := grpc.NewClient("unix:///run/my.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
//			if err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(func() { conn.Close() })
//			return conn
//		}
//		conformance.Run(t, dial, conformance.Config{Image: "docker.io/library/busybox:1.37"})
//	}
//
// The rules hold on containerd 1.6 and 2.4, on CRI-O 1.34 and on package critest in
// each of its models. What a runtime may leave unimplemented is skipped, and said.
//
// The package imports testing and is for tests; a program that needs a runtime in
// memory links critest, which does not.
//
// # Where each rule lives
//
//	conformance.go                     Run, Config, and what a rule is checked on
//	pod.go                             the pods that rules make
//	runtime.go                         the runtime as a whole
//	sandbox.go, sandbox_end.go         sandboxes, and their stop and removal
//	container.go, name.go, resource.go containers, their names and resources
//	stop.go, remove.go                 the end of a container
//	file.go, log.go                    mounts and logs
//	exec.go                            commands in a running container
//	image.go                           images
//	event.go                           the stream of events
package conformance
