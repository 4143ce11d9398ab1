// Package otel traces an agent with OpenTelemetry. The spans have the names of a kubelet's. It is a
// separate module, so that other agents do not depend on OpenTelemetry.
//
//	tracing, err := otel.New(otel.Config{TracerProvider: provider})
//	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: tracing.DialOptions()})
//	config := agent.Config{Client: client, ...}
//	err = tracing.Trace(&config)
//	agent, err := agent.New(config)
//
// The embedder owns the provider, its sampler and its exporter, and shuts them down.
//
//	syncPod                                      one span for each sync of a pod, with the names
//	syncTerminatingPod                           of a kubelet and the attributes k8s.pod,
//	syncTerminatedPod                            k8s.pod.name, k8s.pod.uid, k8s.namespace.name and
//	syncTerminatingRuntimePod                    k8s.pod.update_type
//	runtime.v1.RuntimeService/CreateContainer    a call to the runtime, as a child of the sync
//	runtime.v1.ImageService/PullImage            that made it, with the attributes of gRPC's calls
//
// A call outside of a sync, such as a list, starts its own trace. So does the stop of a sandbox
// that no sync waits for any more. The stream of events is not traced. Calls carry the trace
// context to the runtime (W3C traceparent), so that a runtime with tracing can continue the
// trace.
//
// No span contains requests, responses or error texts: a failed span has the gRPC code, or the
// failed steps' reasons, as its status.
//
// otel.go   Config, Tracing, sync spans; calls.go call spans to the runtime
package otel
