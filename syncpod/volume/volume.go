package volume

import (
	"context"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// A Plugin provides volumes that need a driver, such as those of PersistentVolumeClaims and CSI
// drivers. Package csi of modules/csi has one. Its methods are called concurrently for different
// pods, and SetUp also for different volumes of one pod. Arguments must not be modified.
//
// A Plugin persists what it has mounted, for the next agent. Only TearDown ends the use of a
// volume: the absence of calls for a pod means nothing.
type Plugin interface {
	// Provides reports whether the plugin provides volumes of this kind. It is not called for the kinds that the agent
	// sets up itself.
	Provides(vol *v1.Volume) bool
	// SetUp mounts a volume for a pod, or finds it mounted, and returns once containers can use it. dir is the
	// absolute path of the pod's directory. An error, which may be an *[Error], is reported as an event, and SetUp is
	// called again later; it must not hold a secret. SetUp must return when ctx ends, and is not called while TearDown
	// of the pod runs.
	SetUp(ctx context.Context, pod *v1.Pod, vol *v1.Volume, dir string) error
	// Locate returns where SetUp has made a volume available. It returns an error if the volume is not mounted.
	Locate(pod *v1.Pod, vol *v1.Volume, dir string) (Location, error)
	// TearDown unmounts all volumes of a pod that does not run. The agent, or the next one, retries it until it
	// succeeds, and keeps the pod's directory until then. It is also called for pods without volumes.
	TearDown(ctx context.Context, pod types.UID, dir string) error
}

// A Location is where a volume of a [Plugin] is on the node.
type Location struct {
	// Path is the absolute path of the directory, or of the block device.
	Path string
	// Device is set for a block device, which containers use by volumeDevices.
	Device bool
	// ReadOnly has every container mount the volume read-only.
	ReadOnly bool
	// SELinuxRelabel has the runtime label the volume's files for the container.
	SELinuxRelabel bool
}

// Tokens gets tokens of service accounts.
type Tokens interface {
	// Token returns a token with about the requested lifetime, or a JSON Web Token that contains a
	// shorter one: it is renewed after 80 % of that. With an error, it may return the last token
	// issued, which may have expired: it is used if the volume has no other, and a new one is
	// requested soon. An error must not contain a token.
	Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error)
}

// An Error is the reason why a volume cannot be set up or updated.
type Error struct {
	// Volume is the volume's name.
	Volume string
	// Kind is the field of the API that determines the kind of the volume, such as configMap, and
	// Pod its pod as namespace/name.
	Kind, Pod string
	// Operation is the operation that failed, as a kubelet names it: "MountVolume.MountDevice" if a [Plugin] could not prepare the
	// volume for the node. Empty means "MountVolume.SetUp".
	Operation string
	// Err is the cause. It does not contain the volume's contents.
	Err error
}

// Error returns a sentence.
func (e *Error) Error() string {
	return fmt.Sprintf("volume %q (%s) of pod %s: %v", e.Volume, e.Kind, e.Pod, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A Kind is a kind of volumes.
type Kind uint8

const (
	// KindOther is the kind of volumes that need a [Plugin], such as claims.
	KindOther Kind = iota
	// KindHostPath is a path of the node.
	KindHostPath
	// KindImage is an image that the runtime mounts.
	KindImage
	// KindEmptyDir is a directory of the pod.
	KindEmptyDir
	// KindConfigMap has the keys of a ConfigMap as files. The agent writes all files of this kind and of the next ones.
	KindConfigMap
	// KindSecret has the keys of a Secret.
	KindSecret
	// KindDownwardAPI has fields of the pod.
	KindDownwardAPI
	// KindProjected joins several of them, and tokens.
	KindProjected
)

// KindOf returns the kind of a volume, KindOther for nil.
func KindOf(vol *v1.Volume) Kind {
	switch {
	case vol == nil:
	case vol.HostPath != nil:
		return KindHostPath
	case vol.Image != nil:
		return KindImage
	case vol.EmptyDir != nil:
		return KindEmptyDir
	case vol.ConfigMap != nil:
		return KindConfigMap
	case vol.Secret != nil:
		return KindSecret
	case vol.DownwardAPI != nil:
		return KindDownwardAPI
	case vol.Projected != nil:
		return KindProjected
	}
	return KindOther
}

// OfFiles reports whether the agent writes all files of such a volume.
func (k Kind) OfFiles() bool { return k >= KindConfigMap }

// OfObjects reports whether its files may come from ConfigMaps or Secrets.
func (k Kind) OfObjects() bool { return k == KindConfigMap || k == KindSecret || k == KindProjected }

// Plugin returns a kubelet's name of the plugin for the kind without its domain, such as empty-dir. It is "" for KindOther.
func (k Kind) Plugin() string {
	return [...]string{"", "host-path", "image", "empty-dir", "configmap", "secret", "downward-api", "projected"}[min(k, KindProjected)]
}

// Directory returns the directory below "volumes" for volumes of a kind, "" for a kind that the agent does not make.
func (k Kind) Directory() string {
	if k < KindEmptyDir {
		return ""
	}
	return "kubernetes.io~" + k.Plugin()
}

// Directories returns the directories of all kinds.
func Directories() (all []string) {
	for k := KindEmptyDir; k <= KindProjected; k++ {
		all = append(all, k.Directory())
	}
	return all
}

// Projections provides the sources of projected volumes that need the certificates API: ClusterTrustBundles and
// PodCertificates. Its methods may be called concurrently, and must not modify their arguments.
type Projections interface {
	// Project returns the files of vol.Projected.Sources[index]. After an error, the files that the volume has are kept,
	// and Project is called again later. It must return when ctx ends. An error must not contain a private key.
	Project(ctx context.Context, pod *v1.Pod, vol *v1.Volume, index int) (Projected, error)
}

// Projected is the content of a source of a projected volume.
type Projected struct {
	// Files are the files by their path in the volume. Their mode and owner are those of tokens.
	Files map[string][]byte
	// Secret means that a file may contain a secret: the volume is kept in memory.
	Secret bool
	// Next is when the files may have changed. Zero means that they change only when the pod changes.
	Next time.Time
}

// Stats is the usage of a volume that a pod has mounted. A nil figure is unknown.
type Stats struct {
	// Pod is the pod's UID, and Volume the volume's name in its spec.
	Pod    types.UID
	Volume string
	// Claim is the PersistentVolumeClaim, empty for an inline volume.
	Claim types.NamespacedName
	// Time is when the volume was measured.
	Time time.Time

	CapacityBytes, AvailableBytes, UsedBytes *uint64
	Inodes, InodesFree, InodesUsed           *uint64
	// Abnormal reports whether the driver has found the volume to be faulty, nil if it does not check that.
	Abnormal *bool
}

// ShareRoot makes an agent's root directory, which holds pod directories, a mount with shared propagation, as a
// kubelet does with its root directory. It changes nothing if the mount that holds the directory is shared, as on
// machines with systemd. Otherwise it binds the directory to itself, with all mounts below it. Without a shared
// mount, mountPropagation and recursiveReadOnly of volume mounts fail, because the runtime rejects a volume on a
// private mount.
//
// Call it before any file in the directory is opened. It creates a missing directory. The mount
// stays when the agent ends, because containers hold copies of it; the next agent uses it. The error wraps
// [io/fs.ErrPermission] if the process may not mount; an agent can run pods without the mount. On systems other than
// Linux, ShareRoot only creates the directory.
func ShareRoot(root string) error {
	err := os.MkdirAll(root, 0o750)
	if err == nil {
		err = mounts.Share(root)
	}
	if err != nil {
		return fmt.Errorf("make %s a mount with shared propagation: %w", root, err)
	}
	return nil
}
