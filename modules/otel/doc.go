// Package otel traces what an agent does with OpenTelemetry, under the names of a kubelet's
// spans. It is a module of its own: who does not use it does not have OpenTelemetry.
//
//	tracing, err := otel.New(otel.Config{TracerProvider: provider})
//	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint, Options: tracing.DialOptions()})
//	config := loop.Config{Client: client, ...}
//	err = tracing.Trace(&config)
//	agent, err := loop.New(config)
//
// The provider, its sampler and its exporter are the embedder's, and so is their end.
//
//	syncPod                                      each work on a pod, from when its status is known:
//	syncTerminatingPod                           what a kubelet has, with the attributes k8s.pod,
//	syncTerminatedPod                            k8s.pod.name, k8s.pod.uid, k8s.namespace.name and
//	syncTerminatingRuntimePod                    k8s.pod.update_type
//	runtime.v1.RuntimeService/CreateContainer    a call of the runtime, within the work that
//	runtime.v1.ImageService/PullImage            made it, with the attributes of gRPC's calls
//
// A call that no work has made, such as a list, or the stop of a sandbox that nobody waits
// for any more, is a trace of its own. The stream of events is not traced. The runtime is
// told the trace in the calls (W3C traceparent), so that one that traces, too, goes on with
// it.
//
// No span has anything of what is in a call, nor the text of an error: the state of one that
// failed is its gRPC code, or the reasons of the steps that failed.
//
//	otel.go   Config, Tracing, the work; calls.go calls of the runtime
package otel
