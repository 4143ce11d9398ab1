// Package critools tests the runtime in memory with the clients of sigs.k8s.io/cri-tools: critest, which judges runtimes,
// and crictl. It is a separate module, because the library depends on none of what they need.
package critools
