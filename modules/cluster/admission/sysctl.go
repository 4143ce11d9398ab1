package admission

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod"
)

// safe are the sysctls that pods may always set: they affect only the pod.
var safe = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// sysctlsAllowed rejects a pod that sets a sysctl that is neither safe nor allowed.
func sysctlsAllowed(pod *v1.Pod, allowed []string) *syncpod.Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		if why := forbidden(name, pod, allowed); why != "" {
			return &syncpod.Rejection{Reason: "SysctlForbidden", Message: fmt.Sprintf("forbidden sysctl: %q %s", s.Name, why)}
		}
	}
	return nil
}

// forbidden returns why a pod may not set a sysctl, "" if it may.
func forbidden(name string, pod *v1.Pod, allowed []string) string {
	switch {
	case pod.Spec.HostNetwork && strings.HasPrefix(name, "net."):
		return "not allowed with host net enabled"
	case pod.Spec.HostIPC && !strings.HasPrefix(name, "net."):
		return "not allowed with host ipc enabled"
	case slices.Contains(safe, name), slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, name) }):
		return ""
	}
	return "not allowlisted"
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(strings.ReplaceAll(pattern, "/", "."), "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return strings.ReplaceAll(pattern, "/", ".") == name
}
