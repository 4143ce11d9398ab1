// Package sandbox makes the sandbox of a pod: the environment its containers
// share, as CRI's PodSandboxConfig describes it.
//
// [Config] is pure: it turns a pod, and what the node knows about it, into the
// message. The parts that need the node's own settings are small functions of
// their own, usable without the rest: [HostnameOf], [DNS], [LogDirectory] and
// [RuntimeHandler].
//
// [Runner] makes, stops and removes sandboxes over CRI. Its [Runner.Create] is
// built for the answer that never comes: a creation that timed out ends in one
// sandbox, by adoption or removal of what is there, on runtimes that refuse a name
// that is taken and on those that hand over what has it. A sandbox that comes up
// when another has taken its place is removed by [Runner.Resolve], which is to be
// called at each look at a pod while [Runner.Unresolved] says so.
//
// # Defaults
//
// The pod is taken as it is. Fields that an API server fills in are not filled
// in here, and one of them matters: the namespaces, users, groups and SELinux
// label of a sandbox are described only for a pod whose spec.securityContext is
// not nil, as a kubelet does. A pod that no API server has seen must be given
// its defaults first (the API default is an empty object).
//
// # Ownership
//
// Nothing given is written to, and nothing returned shares memory with it. All
// functions may be called concurrently.
//
// # Where each rule lives
//
//	config.go      Config: the message, from the parts below
//	hostname.go    HostnameOf
//	dns.go         DNS; dnslimits.go what of it is too much, resolvconf.go the node's own
//	ports.go       port mappings
//	linux.go       namespaces, users, sysctls; resources.go what the containers need together
//	handler.go     RuntimeHandler
//
//	runner.go      Runner: what comes up late is removed
//	create.go      Create, and what its lost answer is worth
//	attempts.go    which attempt is next, and which are unresolved
//	stop.go        Stop and Remove, one of each sandbox at a time; Wait and Cut
//
// # Limits
//
// Linux only: Windows containers, and the windows part of the message, are out
// of scope.
package sandbox
