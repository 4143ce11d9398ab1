// Package sandbox creates the sandbox of a pod: the environment that its containers share, as CRI's
// PodSandboxConfig describes it.
//
// [ConfigOf] is pure: it builds that message from a pod and the settings of the node. The parts that need these
// settings are functions of their own: [HostnameOf], [DNS], [LogDirectory] and [RuntimeHandler].
//
// [Runner] creates, stops and removes sandboxes over CRI. If the answer of a creation is lost, [Runner.Create]
// inspects the runtime and adopts or removes the sandbox, so that the pod ends up with one sandbox. This works with
// runtimes that refuse a reserved name, and with runtimes that return the sandbox that has the name. A sandbox that
// appears after another one has replaced it is removed by [Runner.Resolve]: call it with each status of a pod while
// [Runner.Unresolved] is true.
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
// # Where each rule lives
//
//	config.go      Config: the message, from the parts below
//	hostname.go    HostnameOf
//	dns.go         DNS; dnslimits.go the limits, resolvconf.go the node's configuration
//	ports.go       port mappings
//	linux.go       namespaces, users, sysctls; resources.go the sum of the containers' resources
//	handler.go     RuntimeHandler
//
//	runner.go      Runner, and Resolve, which removes late sandboxes
//	create.go      Create, and lost answers
//	attempts.go    the next attempt, and the unresolved attempts
//	stop.go        Stop and Remove, one at a time for each sandbox; Wait and CancelPending
//
// # Limits
//
// Linux only: Windows containers, and the windows part of the message, are out
// of scope.
package sandbox
