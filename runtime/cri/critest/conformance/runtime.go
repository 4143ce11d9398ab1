package conformance

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var runtimeRules = []rule{
	{"version", "Version names the runtime, its version and a CRI version of v1.", checkVersion},
	{"conditions", "Status tells RuntimeReady and NetworkReady, and both are true on a node that works.", checkConditions},
	{"cgroup-driver", "RuntimeConfig tells the cgroup driver, or is unimplemented.", checkCgroupDriver},
	{"pod-cidr", "UpdateRuntimeConfig takes a pod CIDR, needed or not.", checkPodCIDR},
}

func checkVersion(b *bench) {
	v, err := b.rt.Version(b.Context(), &runtimeapi.VersionRequest{Version: "v1"})
	b.must(err)
	if v.GetRuntimeName() == "" || v.GetRuntimeVersion() == "" || v.GetRuntimeApiVersion() != "v1" {
		b.broken("the answer was %v", v)
	}
}

func checkConditions(b *bench) {
	resp, err := b.rt.Status(b.Context(), &runtimeapi.StatusRequest{})
	b.must(err)
	for _, want := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		ok := false
		for _, c := range resp.GetStatus().GetConditions() {
			ok = ok || c.GetType() == want && c.GetStatus()
		}
		if !ok {
			b.broken("%s is not true in %v", want, resp.GetStatus().GetConditions())
		}
	}
}

func checkCgroupDriver(b *bench) {
	_, err := b.rt.RuntimeConfig(b.Context(), &runtimeapi.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		b.Skip("this runtime has no RuntimeConfig")
	}
	b.must(err)
}

func checkPodCIDR(b *bench) {
	_, err := b.rt.UpdateRuntimeConfig(b.Context(), &runtimeapi.UpdateRuntimeConfigRequest{
		RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: "10.99.0.0/24"}},
	})
	b.must(err)
}
