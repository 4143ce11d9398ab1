package critest

import (
	"context"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

func (s service) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	if err := checkContainer(req); err != nil {
		return nil, err
	}
	c := &container{
		name:   containerName(req.GetConfig().GetMetadata(), req.GetSandboxConfig().GetMetadata()),
		config: proto.CloneOf(req.GetConfig()),
		exited: make(chan struct{}),
	}
	taken, err := s.reserveContainer(c, req.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	existing, err := taken.await(ctx, "container", c.name)
	if err != nil {
		return nil, err
	}
	if existing != "" {
		return &runtimeapi.CreateContainerResponse{ContainerId: existing}, nil
	}
	err = s.create(ctx, c)
	s.settle(c.name, c.id, err)
	if err != nil {
		return nil, err
	}
	s.emit(c.id, c.sandbox.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

func checkContainer(req *runtimeapi.CreateContainerRequest) error {
	switch {
	case req.GetConfig().GetMetadata().GetName() == "":
		return status.Error(codes.InvalidArgument, "container config must include metadata with a name")
	case req.GetSandboxConfig().GetMetadata() == nil:
		return status.Error(codes.InvalidArgument, "pod sandbox config must include metadata")
	case req.GetConfig().GetLogPath() != "" && !filepath.IsLocal(req.GetConfig().GetLogPath()):
		return status.Errorf(codes.InvalidArgument, "log path %q leaves the log directory", req.GetConfig().GetLogPath())
	}
	if err := checkUser(req.GetConfig().GetLinux().GetSecurityContext()); err != nil {
		return err
	}
	for _, m := range req.GetConfig().GetMounts() {
		switch {
		case !m.GetRecursiveReadOnly():
		case !m.GetReadonly():
			return status.Errorf(codes.InvalidArgument, "recursive_read_only of the mount at %s requires readonly", m.GetContainerPath())
		case m.GetPropagation() != runtimeapi.MountPropagation_PROPAGATION_PRIVATE:
			return status.Errorf(codes.InvalidArgument, "recursive_read_only of the mount at %s requires the propagation private", m.GetContainerPath())
		}
	}
	return nil
}

// checkUser rejects a group without a user, for a container and for a sandbox.
func checkUser(security interface {
	GetRunAsUser() *runtimeapi.Int64Value
	GetRunAsGroup() *runtimeapi.Int64Value
}) error {
	name, _ := security.(interface{ GetRunAsUsername() string })
	if security.GetRunAsGroup() != nil && security.GetRunAsUser() == nil && (name == nil || name.GetRunAsUsername() == "") {
		return status.Error(codes.InvalidArgument, "run_as_group is set without run_as_user")
	}
	return nil
}

func (s service) reserveContainer(c *container, sandboxID string) (claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.sandbox = byID(s.sandboxes, sandboxID)
	if c.sandbox == nil {
		return claim{}, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", sandboxID)
	}
	if !c.sandbox.ready() {
		return claim{}, status.Errorf(s.cfg.Like.sandboxStopped(), "sandbox container %q is not running", sandboxID)
	}
	c.id = s.newID()
	return s.reserve("container", c.name, c.id)
}

func (s service) create(ctx context.Context, c *container) error {
	if err := midway(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	image, ok := s.images.resolve(c.config.GetImage().GetImage())
	if !ok {
		return status.Errorf(s.cfg.Like.imageMissing(), "failed to resolve image %q: not found", c.config.GetImage().GetImage())
	}
	if s.sandboxes[c.sandbox.id] == nil {
		return status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", c.sandbox.id)
	}
	c.image = image
	c.podUID = c.config.GetLabels()[labelUID]
	var err error
	if c.files, err = s.newFiles(c); err != nil {
		return err
	}
	c.attached = streams.NewAttached(c.config.GetStdin(), c.config.GetTty())
	c.log = &containerLog{host: s.host, dir: c.sandbox.config.GetLogDirectory(), name: c.config.GetLogPath()}
	if s.cfg.Like == CRIO {
		if _, err := s.newProcess(c); err != nil {
			return err
		}
	}
	c.state = runtimeapi.ContainerState_CONTAINER_CREATED
	c.createdAt = time.Now().UnixNano()
	c.unclaimed = s.cfg.Like == CRIO && callerHasGone(ctx)
	c.resources = proto.CloneOf(c.config.GetLinux().GetResources())
	if f := faultOf(ctx); f != nil {
		c.ignores = f.IgnoreSignals
	}
	s.made++
	c.seq = s.made
	m, sb := c.config.GetMetadata(), c.sandbox.config.GetMetadata()
	s.knowContainer(c)
	s.remember(c.id, subject{
		namespace: sb.GetNamespace(), pod: sb.GetName(), uid: sb.GetUid(), sandboxID: c.sandbox.id,
		container: m.GetName(), containerID: c.id, attempt: m.GetAttempt(), image: c.config.GetImage().GetImage(),
	})
	return nil
}
