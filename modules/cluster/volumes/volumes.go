package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/cached"
	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/syncpod/container/env"
)

// Config configures Volumes.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// NodeName is the node's name. Required.
	NodeName string
	// Node returns the Node in the API server, nil before it is registered. Required.
	Node func() *v1.Node
	// Report is called when the node's status must be written soon, because its volumesInUse has changed. It must not
	// block. Required.
	Report func()
	// Secrets gets driver secrets. Required.
	Secrets env.Secrets
	// Log receives a line for each change and error. Default: no log.
	Log logr.Logger
}

// Volumes reads and writes volume objects. Its methods may be called concurrently.
type Volumes struct {
	config  Config
	shared  informers.SharedInformerFactory
	drivers storagelisters.CSIDriverLister
	synced  cache.InformerSynced
	tokens  tokens

	mu sync.Mutex
	// registered are the registered drivers, and deregistered the drivers that have deregistered. changed has a value if the
	// CSINode must be written.
	registered   []csi.DriverInfo
	deregistered map[string]bool
	changed      chan struct{}
	// expanded are the results of expansions that must be written.
	expanded chan expansion
}

// New returns Volumes, which make no request before the first call or Run.
func New(c Config) (*Volumes, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("volumes: Config.Kube is missing")
	case c.NodeName == "":
		return nil, errors.New("volumes: Config.NodeName is missing")
	case c.Node == nil || c.Report == nil || c.Secrets == nil:
		return nil, errors.New("volumes: Config.Node, Report or Secrets is missing")
	}
	v := &Volumes{
		config: c, deregistered: map[string]bool{}, changed: make(chan struct{}, 1), expanded: make(chan expansion, maxExpansions), tokens: tokens{kept: map[string]token{}},
		shared: informers.NewSharedInformerFactoryWithOptions(c.Kube, 0, informers.WithTransform(cached.WithoutManagedFields)),
	}
	informer := v.shared.Storage().V1().CSIDrivers()
	v.drivers, v.synced = informer.Lister(), informer.Informer().HasSynced
	return v, nil
}

// Objects returns the Objects of a csi.Manager.
func (v *Volumes) Objects() csi.Objects {
	return csi.Objects{
		Claim: func(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
			return v.config.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Volume: func(ctx context.Context, name string) (*v1.PersistentVolume, error) {
			return v.config.Kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		},
		Driver: v.driver, Attachment: v.attachment, Secrets: v.config.Secrets, Tokens: v.token,
	}
}

// Run updates the CSINode and writes volume sizes until ctx ends. The node must be registered.
func (v *Volumes) Run(ctx context.Context) {
	v.shared.StartWithContext(ctx)
	defer v.shared.Shutdown()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.keepCSINode(ctx) })
	running.Go(func() { v.writeExpansions(ctx) })
	<-ctx.Done()
}

// driver returns a CSIDriver, nil if there is none.
func (v *Volumes) driver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	if !v.synced() {
		return nil, errors.New("the CSIDrivers of the cluster are not known yet")
	}
	found, err := v.drivers.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// attachment returns a VolumeAttachment once the Node lists the volume in volumesInUse: otherwise the volume could be
// detached while it is mounted.
func (v *Volumes) attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error) {
	found, err := v.config.Kube.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the node may read it once there is one for the node
		return nil, nil
	}
	if err != nil || !found.Status.Attached {
		return found, err
	}
	volume := found.Spec.Source.PersistentVolumeName
	if volume == nil {
		return found, nil
	}
	pv, err := v.config.Kube.CoreV1().PersistentVolumes().Get(ctx, *volume, metav1.GetOptions{})
	if err != nil || pv.Spec.CSI == nil {
		return found, err
	}
	id := v1.UniqueVolumeName("kubernetes.io/csi/" + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle)
	if node := v.config.Node(); node == nil || !slices.Contains(node.Status.VolumesInUse, id) {
		v.config.Report()
		return nil, fmt.Errorf("volume %s is attached, and the API server does not have it in node.status.volumesInUse yet", *volume)
	}
	return found, nil
}
