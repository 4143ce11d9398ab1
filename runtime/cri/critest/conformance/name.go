package conformance

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

var containerNameRules = []rule{
	{"container-name-taken", "CreateContainer with a name and attempt that exist in the pod never makes a second container: it fails or returns the first.", checkNameTaken},
	{"container-next-attempt", "A restart is a new container: the next attempt can run while the last one is still there.", checkNextContainer},
	{"container-name-free", "A name is free again as soon as RemoveContainer has returned.", checkNameFree},
	{"container-name-refused", "A CreateContainer that failed does not keep its name.", checkNameRefused},
}

func checkNameTaken(b *bench) {
	p := b.runSandbox(0)
	id := p.create(script("exit 0"))
	again, err := p.tryCreate(p.containerConfig(0, script("exit 0")))
	if err == nil && again != id {
		b.broken("it made %s beside %s", again, id)
	}
	if got := b.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: p.id}); len(got) != 1 {
		b.broken("%d containers are listed", len(got))
	}
}

func checkNextContainer(b *bench) {
	p := b.runSandbox(0)
	first := p.run(script("exit 1"))
	b.wantExit(first, 1)
	second, err := p.tryCreate(p.containerConfig(1, script("sleep 1000")))
	b.must(err)
	b.must(b.startIt(second))
	if st := b.statusOf(second); st.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || st.GetMetadata().GetAttempt() != 1 {
		b.broken("attempt %d is %v", st.GetMetadata().GetAttempt(), st.GetState())
	}
	if st := b.statusOf(first); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != 1 {
		b.broken("the first one has become %v with %d", st.GetState(), st.GetExitCode())
	}
}

func checkNameFree(b *bench) {
	p := b.runSandbox(0)
	b.must(b.removeIt(p.create(script("exit 0"))))
	p.create(script("exit 0"))
}

func checkNameRefused(b *bench) {
	p := b.runSandbox(0)
	if _, err := p.tryCreate(p.containerConfig(0, script("exit 0"), func(c *runtimeapi.ContainerConfig) {
		c.Image = &runtimeapi.ImageSpec{Image: b.cfg.Missing}
	})); err == nil {
		b.broken("with an image that is not there it succeeded")
	}
	p.create(script("exit 0"))
}
