package poddir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	podmounts "github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
)

// Config configures a [Dirs].
type Config struct {
	// Root is the agent's directory, an absolute path. The pods' directories are
	// below its directory pods. Required.
	Root string
	// LogsRoot is the directory of the logs of all pods, "" means
	// sandbox.DefaultLogsRoot. It is only read.
	LogsRoot string
	// ClusterDomain is the DNS domain of the cluster, such as "cluster.local". The names of pods that
	// have a subdomain contain it.
	ClusterDomain string
	// NodeHosts is the node's own hosts file; pods on the node's network get a
	// copy. "" means /etc/hosts.
	NodeHosts string
	// Volumes creates the pods' volumes. Default: none, and a container that mounts a volume is an
	// error.
	Volumes Volumes
}

// Volumes sets up the volumes of pods below their directories, which it receives as absolute paths. A
// *local.Volumes implements it.
type Volumes interface {
	// SetUp creates or updates the pod's volumes. If the error joins a *volume.Error
	// for each failed volume, each is reported separately.
	SetUp(ctx context.Context, pod *v1.Pod, dir string) error
	// Mounts returns the mounts and devices of a container, in its spec's order.
	Mounts(ctx context.Context, req container.MountRequest, dir string) (container.Mounts, error)
	// TearDown undoes what deleting files does not undo, such as mounts. It may be called again, and for
	// a pod that was never set up.
	TearDown(ctx context.Context, uid types.UID, dir string) error
	// Refresh updates the volumes of the pod that SetUp has created. next is when to call it again,
	// zero if it need not be called before the pod changes.
	Refresh(ctx context.Context, pod *v1.Pod, dir string) (next time.Time, err error)
}

// Dirs keeps pod directories.
type Dirs struct {
	config Config
	pods   string
	// tearDowns and removals are the slots for concurrent operations.
	tearDowns, removals chan struct{}
	// empty deletes all that is in a directory.
	empty func(ctx context.Context, dir string) error
	// mounted is mounts.Below.
	mounted func(dir string) ([]string, error)
}

// ErrDirectory means that a pod's directory cannot be created or used. The volumes are not the
// cause.
var ErrDirectory = errors.New("pod directory")

// New returns a Dirs. It touches no file.
func New(c Config) (*Dirs, error) {
	if c.Root == "" {
		return nil, errors.New("poddir: Config.Root is missing")
	}
	if !filepath.IsAbs(c.Root) {
		return nil, fmt.Errorf("poddir: Config.Root %q is not an absolute path", c.Root)
	}
	if c.LogsRoot == "" {
		c.LogsRoot = sandbox.DefaultLogsRoot
	}
	if c.NodeHosts == "" {
		c.NodeHosts = hostsPath
	}
	return &Dirs{
		config: c, pods: filepath.Join(c.Root, "pods"), empty: empty, mounted: podmounts.Below,
		tearDowns: make(chan struct{}, parallelRemovals), removals: make(chan struct{}, parallelRemovals),
	}, nil
}

const (
	// parallelRemovals limits the concurrent removals of directories, and the concurrent
	// volume teardowns: each takes a thread of the process, and all pods on a node may stop at once.
	parallelRemovals = 16
	// removalTurn is how long one directory's removal may delay the others. tearDownTimeout limits one
	// pod's volume teardown.
	removalTurn, tearDownTimeout = 10 * time.Second, 2 * time.Minute
	// dirMode is the mode of directories that containers do not see, as in a kubelet.
	dirMode = 0o750
	// containersDir, volumesDir and pluginsDir are in each pod's directory.
	containersDir, volumesDir, pluginsDir = "containers", "volumes", "plugins"
)

// Dir returns a pod's directory. It is an error if the UID is empty or could
// lead out of the directory of all pods.
func (d *Dirs) Dir(uid types.UID) (string, error) {
	if err := hostfs.Element("metadata.uid", string(uid)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	return filepath.Join(d.pods, string(uid)), nil
}

// PreparePod creates the pod's directory and its volumes. It may be called again, and then updates them. The
// result is the part of the sandbox's input that depends on this: the cluster's domain.
func (d *Dirs) PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error) {
	in := sandbox.Input{ClusterDomain: d.config.ClusterDomain}
	root, err := d.makePod(pod)
	if err != nil {
		return in, err
	}
	defer root.Close()
	for _, dir := range []string{volumesDir, pluginsDir} {
		if err := root.MkdirAll(dir, dirMode); err != nil {
			return in, fmt.Errorf("%w: %w", ErrDirectory, err)
		}
	}
	if d.config.Volumes == nil {
		return in, nil
	}
	return in, d.config.Volumes.SetUp(ctx, pod, root.Name())
}

// RefreshPod updates the volumes of the pod that PreparePod has created, while its containers run. next is when
// to call it again, zero if it need not be called before the pod changes.
func (d *Dirs) RefreshPod(ctx context.Context, pod *v1.Pod) (next time.Time, err error) {
	if d.config.Volumes == nil {
		return next, nil
	}
	if pod == nil {
		return next, fmt.Errorf("%w: the pod is nil", ErrDirectory)
	}
	dir, err := d.Dir(pod.UID)
	if err != nil {
		return next, err
	}
	return d.config.Volumes.Refresh(ctx, pod, dir)
}

// makePod opens the pod's directory. It creates the directory if it does not exist.
func (d *Dirs) makePod(pod *v1.Pod) (*os.Root, error) {
	if pod == nil {
		return nil, fmt.Errorf("%w: the pod is nil", ErrDirectory)
	}
	dir, err := d.Dir(pod.UID)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	return root, nil
}

// Mounts returns a container's mounts: its volumes, the pod's /etc/hosts, and a new file for its
// termination message. It creates the pod's directory if it does not exist.
func (d *Dirs) Mounts(ctx context.Context, req container.MountRequest) (container.Mounts, error) {
	if req.Container == nil {
		return container.Mounts{}, errors.New("mounts: MountRequest.Container is missing")
	}
	root, err := d.makePod(req.Pod)
	if err != nil {
		return container.Mounts{}, err
	}
	defer root.Close()
	mounts, err := d.volumes(ctx, req, root.Name())
	if err != nil {
		return container.Mounts{}, err
	}
	for _, add := range []func(*os.Root, container.MountRequest) (*runtimeapi.Mount, error){d.hostsMount, d.messageMount} {
		mount, err := add(root, req)
		if err != nil && mounts.Release != nil {
			err = errors.Join(err, mounts.Release())
		}
		if err != nil {
			return container.Mounts{}, err
		}
		if mount != nil {
			mounts.Mounts = append(mounts.Mounts, mount)
		}
	}
	return mounts, nil
}

func (d *Dirs) volumes(ctx context.Context, req container.MountRequest, dir string) (container.Mounts, error) {
	if d.config.Volumes != nil {
		return d.config.Volumes.Mounts(ctx, req, dir)
	}
	for i, m := range req.Container.VolumeMounts {
		return container.Mounts{}, fmt.Errorf("volumeMounts[%d] is of volume %q, and the agent provides no volumes", i, m.Name)
	}
	for i, m := range req.Container.VolumeDevices {
		return container.Mounts{}, fmt.Errorf("volumeDevices[%d] is of volume %q, and the agent provides no volumes", i, m.Name)
	}
	return container.Mounts{}, nil
}
