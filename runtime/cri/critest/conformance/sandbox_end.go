package conformance

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const noID = "0000000000000000000000000000000000000000000000000000000000000000"

var sandboxEndRules = []rule{
	{"sandbox-status-unknown", "PodSandboxStatus of a sandbox that is not there fails with NotFound.", checkSandboxStatusUnknown},
	{"sandbox-stop", "When StopPodSandbox has returned, the sandbox is NOTREADY and every container that ran in it has exited.", checkSandboxStop},
	{"sandbox-stop-again", "StopPodSandbox of a stopped sandbox succeeds.", checkSandboxStopAgain},
	{"sandbox-stop-unknown", "StopPodSandbox and RemovePodSandbox of a sandbox that is not there succeed, or fail with NotFound.", checkSandboxUnknown},
	{"sandbox-remove", "RemovePodSandbox removes the sandbox with all its containers, and frees their names.", checkSandboxRemove},
	{"sandbox-remove-ready", "RemovePodSandbox of a sandbox that is READY and has a running container stops both first.", checkSandboxRemoveReady},
	{"sandbox-stopped-create", "CreateContainer and StartContainer in a stopped sandbox fail.", checkStoppedCreate},
	{"sandbox-unknown-create", "CreateContainer in a sandbox that is not there fails with NotFound, or says that it is not found.", checkUnknownCreate},
}

func checkSandboxStatusUnknown(b *bench) {
	_, err := b.rt.PodSandboxStatus(b.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: noID})
	b.wantCode(err, codes.NotFound)
}

func checkSandboxStop(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("trap '' TERM; sleep 1000"))
	b.must(b.stopSandboxIt(p.id))
	if st := b.sandboxStatusOf(p.id); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		b.broken("the sandbox is %v", st.GetState())
	}
	if st := b.statusOf(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		b.broken("the container is %v", st.GetState())
	}
}

func checkSandboxStopAgain(b *bench) {
	p := b.runSandbox(0)
	b.must(b.stopSandboxIt(p.id))
	b.must(b.stopSandboxIt(p.id))
}

func checkSandboxUnknown(b *bench) {
	if err := b.stopSandboxIt(noID); !gone(err) {
		b.broken("stop: %v", err)
	}
	if err := b.removeSandboxIt(noID); !gone(err) {
		b.broken("remove: %v", err)
	}
}

func checkSandboxRemove(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script("exit 0"))
	b.waitExited(id)
	b.must(b.stopSandboxIt(p.id))
	b.must(b.removeSandboxIt(p.id))
	if got := b.listSandboxes(b.mine()); len(got) != 0 {
		b.broken("the sandbox is still listed")
	}
	if got := b.listContainers(&runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelUID: b.uid}}); len(got) != 0 {
		b.broken("its container is still listed")
	}
	b.runSandbox(0).create(script("exit 0"))
}

func checkSandboxRemoveReady(b *bench) {
	p := b.runSandbox(0)
	p.run(script("trap '' TERM; sleep 1000"))
	b.must(b.removeSandboxIt(p.id))
	if got := b.listSandboxes(b.mine()); len(got) != 0 {
		b.broken("the sandbox is still listed")
	}
}

func checkStoppedCreate(b *bench) {
	p := b.runSandbox(0)
	id := p.create(script("exit 0"))
	b.must(b.stopSandboxIt(p.id))
	if _, err := p.tryCreate(p.containerConfig(1, script("exit 0"))); err == nil {
		b.broken("CreateContainer succeeded")
	}
	if err := b.startIt(id); err == nil {
		b.broken("StartContainer succeeded")
	}
}

func checkUnknownCreate(b *bench) {
	p := &pod{bench: b, id: noID, config: b.sandboxConfig(0)}
	_, err := p.tryCreate(p.containerConfig(0, script("exit 0")))
	if !strings.Contains(status.Convert(err).Message(), "not found") {
		b.wantCode(err, codes.NotFound)
	}
}
