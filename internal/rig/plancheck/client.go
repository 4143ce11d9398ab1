package plancheck

import (
	"context"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// client shows a Checker the calls that change the runtime, and learns from responses which
// pod each container and sandbox belongs to.
type client struct {
	runtimeapi.RuntimeServiceClient
	c *Checker
}

func (l client) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	of := in.GetConfig().GetMetadata()
	l.c.judge(types.UID(of.GetUid()), "RunPodSandbox", func(p *pod) string { return p.run(of.GetAttempt()) })
	out, err := l.RuntimeServiceClient.RunPodSandbox(ctx, in, opts...)
	if id := out.GetPodSandboxId(); err == nil && id != "" {
		l.c.useSandbox(id, types.UID(of.GetUid()))
	}
	return out, err
}

func (l client) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	of := in.GetConfig().GetMetadata()
	uid := types.UID(in.GetSandboxConfig().GetMetadata().GetUid())
	l.c.judge(uid, "CreateContainer "+of.GetName(), func(p *pod) string { return p.create(of.GetName(), of.GetAttempt()) })
	out, err := l.RuntimeServiceClient.CreateContainer(ctx, in, opts...)
	if id := out.GetContainerId(); err == nil && id != "" {
		l.c.learn(id, container{pod: uid, name: of.GetName(), attempt: of.GetAttempt()})
		l.c.useSandbox(in.GetPodSandboxId(), uid) // it may have been made although the call for it failed
	}
	return out, err
}

func (l client) StartContainer(ctx context.Context, in *runtimeapi.StartContainerRequest, opts ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	known := l.c.container(in.GetContainerId())
	l.c.judge(known.pod, "StartContainer "+known.name, func(p *pod) string { return p.create(known.name, known.attempt) })
	return l.RuntimeServiceClient.StartContainer(ctx, in, opts...)
}

func (l client) StopContainer(ctx context.Context, in *runtimeapi.StopContainerRequest, opts ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	known := l.c.container(in.GetContainerId())
	l.c.judge(known.pod, "StopContainer "+known.name, func(p *pod) string { return p.stop(in.GetContainerId(), &known) })
	out, err := l.RuntimeServiceClient.StopContainer(ctx, in, opts...)
	if err == nil && known.pod != "" {
		known.ended = true
		l.c.learn(in.GetContainerId(), known)
	}
	return out, err
}

func (l client) RemoveContainer(ctx context.Context, in *runtimeapi.RemoveContainerRequest, opts ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	known := l.c.container(in.GetContainerId())
	l.c.judge(known.pod, "RemoveContainer "+known.name, func(p *pod) string { return p.remove(in.GetContainerId(), &known) })
	return l.RuntimeServiceClient.RemoveContainer(ctx, in, opts...)
}

func (l client) UpdateContainerResources(ctx context.Context, in *runtimeapi.UpdateContainerResourcesRequest, opts ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	known := l.c.container(in.GetContainerId())
	l.c.judge(known.pod, "UpdateContainerResources "+known.name, func(p *pod) string { return p.update(in.GetContainerId()) })
	return l.RuntimeServiceClient.UpdateContainerResources(ctx, in, opts...)
}

func (l client) StopPodSandbox(ctx context.Context, in *runtimeapi.StopPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	l.c.judge(l.c.sandbox(in.GetPodSandboxId()), "StopPodSandbox", func(p *pod) string { return p.stopSandbox(in.GetPodSandboxId()) })
	return l.RuntimeServiceClient.StopPodSandbox(ctx, in, opts...)
}

func (l client) RemovePodSandbox(ctx context.Context, in *runtimeapi.RemovePodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	l.c.judge(l.c.sandbox(in.GetPodSandboxId()), "RemovePodSandbox", func(p *pod) string { return p.stopSandbox(in.GetPodSandboxId()) })
	return l.RuntimeServiceClient.RemovePodSandbox(ctx, in, opts...)
}

func (l client) ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	out, err := l.RuntimeServiceClient.ListContainers(ctx, in, opts...)
	for _, c := range out.GetContainers() {
		l.c.learn(c.GetId(), seen(c.GetLabels(), c.GetMetadata(), c.GetState()))
	}
	return out, err
}

func (l client) ContainerStatus(ctx context.Context, in *runtimeapi.ContainerStatusRequest, opts ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	out, err := l.RuntimeServiceClient.ContainerStatus(ctx, in, opts...)
	if c := out.GetStatus(); c != nil {
		l.c.learn(c.GetId(), seen(c.GetLabels(), c.GetMetadata(), c.GetState()))
	}
	return out, err
}

func (l client) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	out, err := l.RuntimeServiceClient.ListPodSandbox(ctx, in, opts...)
	for _, sb := range out.GetItems() {
		l.c.listSandbox(sb.GetId(), types.UID(sb.GetMetadata().GetUid()), sb.GetMetadata().GetAttempt())
	}
	return out, err
}

func seen(labels map[string]string, of *runtimeapi.ContainerMetadata, state runtimeapi.ContainerState) container {
	return container{
		pod: types.UID(labels[runtime.LabelPodUID]), name: labels[runtime.LabelContainerName], attempt: of.GetAttempt(),
		ended: state == runtimeapi.ContainerState_CONTAINER_EXITED,
	}
}

// learn records an instance's state. An exited one stays exited.
func (c *Checker) learn(id string, now container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.containers[id]; before != nil && before.ended {
		now.ended = true
	}
	c.containers[id] = &now
}

// useSandbox notes the sandbox that a pod uses.
func (c *Checker) useSandbox(id string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sandboxes[id] = uid
	c.pod(uid).sandbox = id
}

// listSandbox records a sandbox that the runtime lists. It may be the one that the plan creates: the
// runtime has created it late, for a failed call of earlier work.
func (c *Checker) listSandbox(id string, uid types.UID, attempt uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sandboxes[id] = uid
	if p := c.pods[uid]; p != nil && p.plan != nil && p.plan.Sandbox.Create && attempt >= p.plan.Sandbox.Attempt {
		p.begun[sandboxMade] = true
	}
}

func (c *Checker) container(id string) container {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.containers[id]; known != nil {
		return *known
	}
	return container{}
}

func (c *Checker) sandbox(id string) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sandboxes[id]
}
