package conformance

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

var resourceRules = []rule{
	{"resources-update", "UpdateContainerResources succeeds on a running container, and ContainerStatus tells the new resources if it tells any.", checkResources},
	{"stats", "ContainerStats and ListContainerStats tell of a running container which it is, and its use of CPU and memory.", checkStats},
}

func checkResources(b *bench) {
	id := b.runSandbox(0).run(script("sleep 1000"), func(c *runtimeapi.ContainerConfig) {
		c.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuShares: 512}
	})
	_, err := b.rt.UpdateContainerResources(b.Context(), &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{CpuShares: 256},
	})
	b.must(err)
	if told := b.statusOf(id).GetResources(); told != nil && told.GetLinux().GetCpuShares() != 256 {
		b.broken("it tells %v", told)
	}
}

func checkStats(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("sleep 1000"))
	one, err := b.rt.ContainerStats(b.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: id})
	b.must(err)
	all, err := b.rt.ListContainerStats(b.Context(), &runtimeapi.ListContainerStatsRequest{
		Filter: &runtimeapi.ContainerStatsFilter{PodSandboxId: p.id},
	})
	b.must(err)
	if len(all.GetStats()) != 1 {
		b.broken("%d are listed", len(all.GetStats()))
	}
	for _, s := range []*runtimeapi.ContainerStats{one.GetStats(), all.GetStats()[0]} {
		if s.GetAttributes().GetId() != id || s.GetCpu().GetTimestamp() == 0 || s.GetMemory().GetTimestamp() == 0 {
			b.broken("they are %v", s)
		}
	}
}
