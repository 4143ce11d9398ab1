package sandbox_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/sandbox"
)

func Example() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "7d0f"},
		Spec: v1.PodSpec{
			Subdomain:       "web",
			Containers:      []v1.Container{{Name: "nginx", Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}}},
			SecurityContext: &v1.PodSecurityContext{},
		},
	}
	dns, warnings, err := sandbox.GetPodDNS(pod, sandbox.NodeDNS{
		ClusterServers: []string{"10.96.0.10"},
		ClusterDomain:  "cluster.local",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range warnings {
		fmt.Println(w.Reason(), w) // record the warning as an event
	}
	config, err := sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod, DNS: dns, ClusterDomain: "cluster.local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Hostname)
	fmt.Println(config.LogDirectory)
	fmt.Println(config.DnsConfig.Searches)
	fmt.Println(config.PortMappings[0].HostPort, "->", config.PortMappings[0].ContainerPort)
	// Output:
	// web-0
	// /var/log/pods/shop_web-0_7d0f
	// [shop.svc.cluster.local svc.cluster.local cluster.local]
	// 8080 -> 80
}

func ExampleGeneratePodHostname() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec:       v1.PodSpec{Subdomain: "web"},
	}
	name, err := sandbox.GeneratePodHostname(pod, "cluster.local")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name.Host)
	fmt.Println(name.FQDN())
	// Output:
	// web-0
	// web-0.web.shop.svc.cluster.local
}
