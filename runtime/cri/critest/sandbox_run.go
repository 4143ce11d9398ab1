package critest

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// labelUID is the label with the UID of a pod, which every agent on a node writes.
const labelUID = "io.kubernetes.pod.uid"

func (s service) RunPodSandbox(ctx context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	if err := s.checkSandbox(req); err != nil {
		return nil, err
	}
	sb := &sandbox{
		name:    sandboxName(req.GetConfig().GetMetadata()),
		config:  proto.CloneOf(req.GetConfig()),
		podUID:  req.GetConfig().GetLabels()[labelUID],
		handler: req.GetRuntimeHandler(),
		state:   runtimeapi.PodSandboxState_SANDBOX_READY,
	}
	s.mu.Lock()
	sb.id = s.newID()
	taken, err := s.reserve("sandbox", sb.name, sb.id)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	existing, err := taken.await(ctx, "sandbox", sb.name)
	if err != nil {
		return nil, err
	}
	if existing != "" {
		return &runtimeapi.RunPodSandboxResponse{PodSandboxId: existing}, nil
	}
	err = s.bringUp(ctx, sb)
	s.settle(sb.name, sb.id, err)
	if err != nil {
		return nil, err
	}
	if s.cfg.Like != CRIO {
		s.emit(sb.id, sb.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	}
	s.emit(sb.id, sb.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: sb.id}, nil
}

func (s service) checkSandbox(req *runtimeapi.RunPodSandboxRequest) error {
	m := req.GetConfig().GetMetadata()
	if m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "" {
		return status.Error(codes.InvalidArgument, "sandbox config must include metadata with name, namespace and uid")
	}
	if h := req.GetRuntimeHandler(); h != "" && !slices.Contains(s.cfg.Handlers, h) {
		return status.Errorf(codes.Unknown, "failed to get sandbox runtime: no runtime for %q is configured", h)
	}
	security := req.GetConfig().GetLinux().GetSecurityContext()
	if err := checkUser(security); err != nil {
		return err
	}
	if err := checkUserns(security.GetNamespaceOptions().GetUsernsOptions()); err != nil {
		return err
	}
	onNode := req.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	if onNode && req.GetConfig().GetHostname() != "" {
		return status.Error(codes.Unknown, "failed to create containerd task: unable to set hostname without a private UTS namespace")
	}
	if d := req.GetConfig().GetLogDirectory(); d != "" && !filepath.IsAbs(d) {
		return status.Errorf(codes.InvalidArgument, "log directory %q is not an absolute path", d)
	}
	return nil
}

// checkUserns rejects user namespaces that containerd rejects.
func checkUserns(o *runtimeapi.UserNamespace) error {
	if o == nil || o.GetMode() == runtimeapi.NamespaceMode_NODE {
		if len(o.GetUids())+len(o.GetGids()) > 0 {
			return status.Error(codes.InvalidArgument, "can't use mappings in the user namespace mode NODE")
		}
		return nil
	}
	if o.GetMode() != runtimeapi.NamespaceMode_POD {
		return status.Errorf(codes.InvalidArgument, "user namespace mode %s is not supported", o.GetMode())
	}
	for _, m := range [][]*runtimeapi.IDMapping{o.GetUids(), o.GetGids()} {
		if len(m) != 1 || m[0].GetLength() == 0 || m[0].GetContainerId() != 0 {
			return status.Error(codes.InvalidArgument, "a user namespace requires one mapping of users and one of groups, from the container's ID 0 on")
		}
	}
	if !proto.Equal(o.GetUids()[0], o.GetGids()[0]) {
		return status.Error(codes.InvalidArgument, "the mappings of users and groups of a user namespace differ")
	}
	return nil
}

// bringUp does the part of a creation that takes a runtime time: the network and the sandbox's process.
func (s service) bringUp(ctx context.Context, sb *sandbox) error {
	if err := midway(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.cfg.Like == CRIO {
		if err := s.host.makeDir(sb.config.GetLogDirectory()); err != nil {
			return status.Error(codes.Unknown, err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !sb.onNodeNetwork() {
		ips, err := s.addresses.pick()
		if err != nil {
			return err
		}
		sb.ips = ips
	}
	if f := faultOf(ctx); f != nil {
		sb.ipsFrom = now.Add(f.IPAfter)
	}
	sb.createdAt = time.Now().UnixNano()
	sb.unclaimed = s.cfg.Like == CRIO && callerHasGone(ctx)
	s.made++
	sb.seq = s.made
	m := sb.config.GetMetadata()
	s.knowSandbox(sb)
	s.remember(sb.id, subject{
		namespace: m.GetNamespace(), pod: m.GetName(), uid: m.GetUid(), attempt: m.GetAttempt(), sandboxID: sb.id,
	})
	return nil
}
