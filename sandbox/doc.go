// Package sandbox builds a pod's sandbox configuration, CRI's PodSandboxConfig: the environment that its containers share.
//
// [GeneratePodSandboxConfig] is pure: it builds that message from a pod and the node's settings. The parts that need these
// settings are their own functions: [GeneratePodHostname], [GetPodDNS], [BuildPodLogsDirectory] and [LookupRuntimeHandler].
//
// # Defaults
//
// This package sets no API defaults. One of them matters: like a kubelet, it describes the namespaces, users, groups
// and SELinux label of a sandbox only if the spec.securityContext of the pod is not nil. The caller must set the
// defaults of a pod that no API server has admitted (the API's default is an empty object).
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
// Linux only: Windows containers, and the windows part of the message, are not supported.
package sandbox

// Where each rule lives:
//
//	config.go      GeneratePodSandboxConfig: the message, from the parts below
//	hostname.go    GeneratePodHostname
//	dns.go         GetPodDNS; dnslimits.go the limits
//	ports.go       port mappings
//	linux.go       namespaces, users, sysctls; resources.go the sum of the containers' resources
//	handler.go     LookupRuntimeHandler
//	sandbox.go     settings of a node; resolvconf.go reads its resolver; option.go sets one option
