package conformance

import (
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var containerRules = []rule{
	{"container-created", "A created container is CREATED, with its time of creation and no other times.", checkCreated},
	{"container-running", "When StartContainer has returned, the container is RUNNING or has exited already, with its time of start.", checkRunning},
	{"container-exit-0", "A container whose process ends with 0 is EXITED with code 0 and reason Completed, and its times are in order.", checkExit0},
	{"container-exit-code", "A container whose process ends with another code is EXITED with it, for the reason Error.", checkExitCode},
	{"container-echo", "Status and list of a container give back metadata, labels and annotations as they were given, and the list its sandbox.", checkContainerEcho},
	{"container-command", "Command and args run one after the other, with the environment that was given.", checkCommand},
	{"container-start-once", "A container is started once: StartContainer of one that runs or has exited fails and changes nothing.", checkStartOnce},
	{"container-start-unknown", "StartContainer and ContainerStatus of a container that is not there fail with NotFound.", checkStartUnknown},
	{"container-start-fails", "CreateContainer fails for want of the command; or StartContainer does, and the container is EXITED with a code that is not 0.", checkStartFails},
	{"container-image-missing", "CreateContainer with an image that is not on the node fails and leaves nothing.", checkImageMissing},
	{"container-image", "A container's status names the image it runs.", checkContainerImage},
	{"container-filter", "ListContainers lists what matches all of ID, state, sandbox and every label of its filter, and nothing else.", checkContainerFilter},
}

func checkCreated(b *bench) {
	st := b.statusOf(b.runSandbox(0).create(script("exit 0")))
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED || st.GetCreatedAt() == 0 || st.GetStartedAt() != 0 || st.GetFinishedAt() != 0 {
		b.broken("state %v, created %d, started %d, finished %d", st.GetState(), st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
}

func checkRunning(b *bench) {
	p := b.runSandbox(0)
	st := b.statusOf(p.run(script("sleep 1000")))
	if st.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || st.GetStartedAt() < st.GetCreatedAt() || st.GetFinishedAt() != 0 {
		b.broken("state %v, created %d, started %d, finished %d", st.GetState(), st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
	short := p.containerConfig(0, script("exit 0"))
	short.Metadata.Name = "short"
	id, err := p.tryCreate(short)
	b.must(err)
	b.must(b.startIt(id))
	if st := b.statusOf(id); st.GetStartedAt() == 0 {
		b.broken("state %v without a time of start", st.GetState())
	}
}

func checkExit0(b *bench) {
	st := b.waitExited(b.runSandbox(0).run(script("sleep 0.1")))
	if st.GetExitCode() != 0 || st.GetReason() != "Completed" {
		b.broken("code %d, reason %q", st.GetExitCode(), st.GetReason())
	}
	if st.GetCreatedAt() == 0 || st.GetStartedAt() < st.GetCreatedAt() || st.GetFinishedAt() <= st.GetStartedAt() {
		b.broken("created %d, started %d, finished %d", st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
}

func checkExitCode(b *bench) {
	st := b.waitExited(b.runSandbox(0).run(script("exit 3")))
	if st.GetExitCode() != 3 || st.GetReason() != "Error" {
		b.broken("code %d, reason %q", st.GetExitCode(), st.GetReason())
	}
}

func checkContainerEcho(b *bench) {
	p := b.runSandbox(0)
	want := p.containerConfig(4, script("exit 0"))
	id, err := p.tryCreate(want)
	b.must(err)
	st := b.statusOf(id)
	if !proto.Equal(st.GetMetadata(), want.GetMetadata()) || !maps.Equal(st.GetLabels(), want.GetLabels()) ||
		!maps.Equal(st.GetAnnotations(), want.GetAnnotations()) {
		b.broken("the status has %v, %v, %v", st.GetMetadata(), st.GetLabels(), st.GetAnnotations())
	}
	resp, err := b.rt.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
	b.must(err)
	if len(resp.GetContainers()) != 1 {
		b.broken("%d containers are listed under its ID", len(resp.GetContainers()))
	}
	c := resp.GetContainers()[0]
	if !proto.Equal(c.GetMetadata(), want.GetMetadata()) || !maps.Equal(c.GetLabels(), want.GetLabels()) ||
		!maps.Equal(c.GetAnnotations(), want.GetAnnotations()) || c.GetPodSandboxId() != p.id ||
		c.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED || c.GetImage().GetImage() == "" {
		b.broken("the list has %v", c)
	}
}

func checkCommand(b *bench) {
	id := b.runSandbox(0).run([]string{"/bin/sh", "-c"}, func(c *runtimeapi.ContainerConfig) {
		c.Args = []string{"exit $CODE"}
		c.Envs = []*runtimeapi.KeyValue{{Key: "CODE", Value: []byte("9")}}
	})
	b.wantExit(id, 9)
}

func checkStartOnce(b *bench) {
	p := b.runSandbox(0)
	id := p.run(script(deaf))
	b.waitSet(id)
	if err := b.startIt(id); err == nil {
		b.broken("of one that runs it succeeded")
	}
	if st := b.statusOf(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		b.broken("the one that ran is %v", st.GetState())
	}
	b.must(b.stopIt(id, 0))
	if err := b.startIt(id); err == nil {
		b.broken("of one that has exited it succeeded")
	}
	if st := b.statusOf(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || st.GetExitCode() != 137 {
		b.broken("the one that had exited with 137 is %v with %d", st.GetState(), st.GetExitCode())
	}
}

func checkStartUnknown(b *bench) {
	b.wantCode(b.startIt(noID), codes.NotFound)
	_, err := b.rt.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: noID})
	b.wantCode(err, codes.NotFound)
}

func checkStartFails(b *bench) {
	p := b.runSandbox(0)
	id, err := p.tryCreate(p.containerConfig(0, []string{"/no/such/command"}))
	if err != nil {
		if got := b.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: p.id}); len(got) != 0 {
			b.broken("after %v a container is listed", err)
		}
		return
	}
	if err := b.startIt(id); err == nil {
		b.broken("it succeeded")
	}
	if st := b.waitExited(id); st.GetExitCode() == 0 || st.GetReason() == "" {
		b.broken("code %d, reason %q", st.GetExitCode(), st.GetReason())
	}
}

func checkImageMissing(b *bench) {
	p := b.runSandbox(0)
	_, err := p.tryCreate(p.containerConfig(0, script("exit 0"), func(c *runtimeapi.ContainerConfig) {
		c.Image = &runtimeapi.ImageSpec{Image: b.cfg.Missing, UserSpecifiedImage: b.cfg.Missing}
	}))
	if err == nil {
		b.broken("it succeeded")
	}
	if got := b.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: p.id}); len(got) != 0 {
		b.broken("a container is listed")
	}
	p.create(script("exit 0")) // the name is free
}

func checkContainerImage(b *bench) {
	st := b.statusOf(b.runSandbox(0).create(script("exit 0")))
	if st.GetImage().GetImage() == "" || st.GetImageRef() == "" {
		b.broken("image %q, reference %q", st.GetImage().GetImage(), st.GetImageRef())
	}
}

func checkContainerFilter(b *bench) {
	p, other := b.runSandbox(0), b.runSandbox(1)
	running := p.run(script("sleep 1000"))
	created, err := p.tryCreate(p.containerConfig(1, script("exit 0")))
	b.must(err)
	elsewhere, err := other.tryCreate(other.containerConfig(2, script("exit 0")))
	b.must(err)
	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	labels := map[string]string{labelUID: b.uid, labelContainer: "app"}
	for _, tc := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"labels", &runtimeapi.ContainerFilter{LabelSelector: labels}, []string{running, created, elsewhere}},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: p.id}, []string{running, created}},
		{"sandbox and RUNNING", &runtimeapi.ContainerFilter{PodSandboxId: p.id, State: state(runtimeapi.ContainerState_CONTAINER_RUNNING)}, []string{running}},
		{"labels and CREATED", &runtimeapi.ContainerFilter{LabelSelector: labels, State: state(runtimeapi.ContainerState_CONTAINER_CREATED)}, []string{created, elsewhere}},
		{"ID and another sandbox", &runtimeapi.ContainerFilter{Id: running, PodSandboxId: other.id}, nil},
		{"a label too many", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelUID: b.uid, "no": "such"}}, nil},
	} {
		if got := b.listContainers(tc.filter); !sameIDs(got, tc.want) {
			b.broken("by %s it lists %d, not %d, or others", tc.name, len(got), len(tc.want))
		}
	}
}
