package volume

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
