// Package conformance checks a CRI runtime against the rules on which a node agent relies. Each
// rule is a sentence.
//
// Call [Run] from a test with a connection to the runtime: containerd, CRI-O, your own runtime, or
// a fake. It needs root if the runtime does, an image with busybox on the node, and a directory
// that both the test and the runtime see:
//
//	func TestMyRuntime(t *testing.T) {
//		dial := func(t *testing.T) *grpc.ClientConn {
//			conn, err := grpc.NewClient("unix:///run/my.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
//			if err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(func() { conn.Close() })
//			return conn.ClientConn
//		}
//		conformance.Run(t, dial, conformance.Config{Image: "docker.io/library/busybox:1.37"})
//	}
//
// Package critest needs an image whose unknown commands do not exist, and a registry without images:
//
//	critest.Config{Dir: dir, Images: []critest.Image{{Name: "busybox", OnlyKnown: true}}, Registry: []critest.RemoteImage{}}
//	conformance.Config{Image: "busybox", Dir: dir}
//
// The rules hold on containerd 1.6 and 2.4, on CRI-O 1.34 and on package critest in each of its
// models. Optional parts that the runtime does not implement are skipped and reported.
//
// The package imports testing and is for tests; a program that needs an in-memory runtime links
// critest, which does not.
package conformance

// Where each rule lives:
//
//	conformance.go                     Run, Config, and the bench of a rule
//	pod.go                             the pods of rules
//	runtime.go                         the runtime as a whole
//	sandbox.go, sandbox_end.go         sandboxes, and their stop and removal
//	container.go, name.go, resource.go containers, their names and resources
//	stop.go, remove.go                 the end of a container
//	file.go, log.go                    mounts and logs
//	exec.go                            commands in a running container
//	image.go                           images
//	event.go                           the stream of events
