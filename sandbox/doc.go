// Package sandbox builds a pod's sandbox configuration, CRI's PodSandboxConfig: the environment that its containers share.
// A program that creates sandboxes itself imports it for the message; sandbox/run sends it.
//
// [GeneratePodSandboxConfig] is pure: it builds that message from a pod and the node's settings. The parts that need these
// settings are their own functions: [GeneratePodHostname], [GetPodDNS], [BuildPodLogsDirectory] and [LookupRuntimeHandler].
//
// The functions have the names of a kubelet's, except GetPodDNS and ParseResolvConf, which are its dnsConfigurer, and
// GeneratePodHostname, which is GeneratePodHostNameAndDomain.
//
// # What the caller provides
//
// A pod, with or without the API's defaults: an empty dnsPolicy is ClusterFirst, and a nil securityContext an empty one. An
// attempt that increases with each sandbox of the pod. If several agents share the runtime, the owner's label, from
// cri.Owner.Mark; package sandbox/run adds it. Errors name the field of the pod or of the [Input].
//
// # Ownership
//
// No function writes to its arguments, and no result shares memory with them. All functions may be called
// concurrently.
//
// # Settings of a node
//
// [NodeDNS] describes name resolution on the node, and [ParseResolvConf] reads it from a file. [RuntimeClasses] returns the
// handler for a runtime class.
//
// # Limits
//
// Linux only: Windows containers, and the message's windows part, are not supported.
package sandbox

// Where each rule lives:
//
//	config.go      GeneratePodSandboxConfig: the message, from the parts below
//	hostname.go    GeneratePodHostname
//	dns.go         GetPodDNS; dnslimits.go the limits
//	ports.go       port mappings
//	linux.go       namespaces, users, sysctls, and the sum of the containers' resources
//	handler.go     LookupRuntimeHandler
//	sandbox.go     settings of a node; resolvconf.go reads its resolver
