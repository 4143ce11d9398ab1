package e2e

import (
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func hostNetwork(n *node, a *agent) {
	p := a.pod(n, "host-network", `
hostNetwork: true
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	app := p.running("app", 0)
	host := must.Get(os.Readlink("/proc/self/ns/net"))(n)
	if got := strings.TrimSpace(p.exec(app, "readlink", "/proc/self/ns/net")); got != host {
		n.Errorf("the network is %s, not the host's %s", got, host)
	}
	name := must.Get(os.Hostname())(n)
	if got := strings.TrimSpace(p.exec(app, "hostname")); got != name {
		n.Errorf("the host's name is %q, not %q", got, name)
	}
}

func podNetwork(n *node, a *agent) {
	p := a.pod(n, "pod-network", `
subdomain: domain
hostAliases: [{ip: 192.0.2.9, hostnames: [elsewhere]}]
dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.53], searches: [example.com]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
- {name: other, image: localhost/busybox:e2e, command: [sleep, infinity]}
`)
	app, other := p.running("app", 0), p.running("other", 0)
	if p.exec(app, "readlink", "/proc/self/ns/net") != p.exec(other, "readlink", "/proc/self/ns/net") {
		n.Error("two containers of a pod are in two networks")
	}
	hosts := p.exec(app, "cat", "/etc/hosts")
	for _, want := range []string{p.ip() + "\t", p.name, "192.0.2.9\telsewhere"} {
		if !strings.Contains(hosts, want) {
			n.Errorf("/etc/hosts has no %q:\n%s", want, hosts)
		}
	}
	if got := p.exec(app, "cat", "/etc/resolv.conf"); !strings.Contains(got, "nameserver 192.0.2.53") || !strings.Contains(got, "search example.com") {
		n.Errorf("/etc/resolv.conf, want %q in it and %q in it\n%s", "nameserver 192.0.2.53", "search example.com", got)
	}
	ip := p.ip()
	p.said("its address", func(s *v1.PodStatus) bool { return s.PodIP == ip })
	if s := p.sandboxes(); len(s) != 1 || s[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		n.Errorf("sandboxes %v, want one in state %v", s, runtimeapi.PodSandboxState_SANDBOX_READY)
	}
}
