package conformance

import (
	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var removeRules = []rule{
	{"remove", "A removed container is listed no more, and ContainerStatus fails with NotFound.", checkRemove},
	{"remove-running", "RemoveContainer of a running container kills it first.", checkRemoveRunning},
	{"remove-unknown", "RemoveContainer of a container that is not there succeeds, or fails with NotFound.", checkRemoveUnknown},
	{"remove-keeps-sandbox", "Removing the last container leaves its sandbox READY.", checkRemoveKeeps},
}

func checkRemove(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("exit 0"))
	b.waitExited(id)
	b.must(b.removeIt(id))
	b.wantGone(p, id)
}

func (b *bench) wantGone(p *pod, id string) {
	b.Helper()
	if got := b.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: p.id}); len(got) != 0 {
		b.broken("it is still listed")
	}
	_, err := b.rt.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	b.wantCode(err, codes.NotFound)
}

func checkRemoveRunning(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script(deaf))
	b.must(b.removeIt(id))
	b.wantGone(p, id)
}

func checkRemoveUnknown(b *bench) {
	if err := b.removeIt(noID); !gone(err) {
		b.broken("%v", err)
	}
}

func checkRemoveKeeps(b *bench) {
	p := b.runSandbox(0)
	b.must(b.removeIt(p.create(script("exit 0"))))
	if st := b.sandboxStatusOf(p.id); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		b.broken("it is %v", st.GetState())
	}
}
