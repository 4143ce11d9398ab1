package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/hostfs"
)

// Plugin names in a kubelet's layout.
const (
	csiPlugin   = "kubernetes.io/csi"
	localPlugin = "kubernetes.io/local-volume"
	hostPlugin  = "kubernetes.io/host-path"
)

// A source identifies a volume and its parameters. It is recorded, so that the next agent can unmount the volume
// without its API objects. It contains references to secrets, but no secret.
type source struct {
	// Plugin is one of the plugin names above. Name is the directory's name: the name of the PersistentVolume, or, for an
	// ephemeral volume, the volume's name in the pod's spec.
	Plugin, Name string
	// Driver and Handle identify a CSI driver's volume.
	Driver, Handle string `json:",omitempty"`
	// Path is the path of a local volume or a hostPath.
	Path string           `json:",omitempty"`
	Type *v1.HostPathType `json:",omitempty"`
	// Ephemeral means an inline volume in the pod's spec.
	Ephemeral bool `json:",omitempty"`
	Block     bool `json:",omitempty"`
	ReadOnly  bool `json:",omitempty"`
	// The other fields are passed to the driver.
	AccessModes  []v1.PersistentVolumeAccessMode `json:",omitempty"`
	FSType       string                          `json:",omitempty"`
	MountOptions []string                        `json:",omitempty"`
	Attributes   map[string]string               `json:",omitempty"`
	// StageSecret, PublishSecret and ExpandSecret name secrets.
	StageSecret, PublishSecret, ExpandSecret *v1.SecretReference `json:",omitempty"`
	// Namespace and Claim name the claim, empty for an inline volume.
	Namespace, Claim string `json:",omitempty"`
	// Size is the PersistentVolume's capacity if it is larger than the claim's.
	Size int64 `json:",omitempty"`
	// StagedAs is the name under which the volume is staged, if that is not Name.
	StagedAs string `json:",omitempty"`
}

// id returns the volume's identity.
func (s *source) id() VolumeID {
	if s.Plugin == csiPlugin {
		return VolumeID(csiPlugin + "/" + s.Driver + "^" + s.Handle)
	}
	return VolumeID(s.Plugin + "/" + s.Name)
}

// exclusive reports whether only one pod may have the volume.
func (s *source) exclusive() bool { return slices.Contains(s.AccessModes, v1.ReadWriteOncePod) }

// check rejects names that could lead out of the pod's or the driver's directory.
func (s *source) check() error {
	errs := []error{hostfs.Element("volume name", s.Name)}
	if s.Plugin == csiPlugin {
		errs = append(errs, checkDriver(s.Driver))
		if s.Handle == "" || len(s.Handle) > maxHandle {
			errs = append(errs, fmt.Errorf("volumeHandle has %d bytes, want 1 to %d", len(s.Handle), maxHandle))
		}
	} else if err := checkHostPath(s.Path); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxHandle is a volumeHandle's maximum length. CSI limits it to 128 bytes, with exceptions.
const maxHandle = 1024

// checkHostPath rejects a path that is relative or contains "..".
func checkHostPath(path string) error {
	if !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		return fmt.Errorf("path %q must be absolute, and .. must not be an element of it", path)
	}
	return nil
}

// resolve returns a pod volume's source.
func (o *Objects) resolve(ctx context.Context, pod *v1.Pod, vol *v1.Volume) (*source, error) {
	s, err := o.sourceOf(ctx, pod, vol)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

func (o *Objects) sourceOf(ctx context.Context, pod *v1.Pod, vol *v1.Volume) (*source, error) {
	switch {
	case vol.CSI != nil:
		return inlineSource(pod, vol), nil
	case vol.PersistentVolumeClaim != nil:
		return o.sourceOfClaim(ctx, pod, vol.PersistentVolumeClaim.ClaimName, vol.PersistentVolumeClaim.ReadOnly, false)
	case vol.Ephemeral != nil:
		return o.sourceOfClaim(ctx, pod, pod.Name+"-"+vol.Name, false, true)
	}
	return nil, errors.New("there is no provider of volumes of this kind")
}

// inlineSource returns an inline volume's source, which lives as long as its pod. Its handle is the kubelet's.
func inlineSource(pod *v1.Pod, vol *v1.Volume) *source {
	sum := sha256.Sum256([]byte(string(pod.UID) + vol.Name))
	s := &source{
		Plugin: csiPlugin, Name: vol.Name, Driver: vol.CSI.Driver, Handle: "csi-" + hex.EncodeToString(sum[:]), Ephemeral: true,
		Attributes: vol.CSI.VolumeAttributes, ReadOnly: vol.CSI.ReadOnly != nil && *vol.CSI.ReadOnly,
	}
	if vol.CSI.FSType != nil {
		s.FSType = *vol.CSI.FSType
	}
	if ref := vol.CSI.NodePublishSecretRef; ref != nil {
		s.PublishSecret = &v1.SecretReference{Namespace: pod.Namespace, Name: ref.Name}
	}
	return s
}

// sourceOfClaim returns the source of the PersistentVolume to which a claim is bound. With owned, the claim must be owned
// by the pod.
func (o *Objects) sourceOfClaim(ctx context.Context, pod *v1.Pod, name string, readOnly, owned bool) (*source, error) {
	if o.Claim == nil || o.Volume == nil {
		return nil, errors.New("this node knows no PersistentVolumeClaims: Config.Objects.Claim and Volume are missing")
	}
	claim, err := o.Claim(ctx, pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: failed to fetch PVC from API server: %w", pod.Namespace, name, err)
	}
	if owned && !slices.ContainsFunc(claim.OwnerReferences, ownedBy(pod)) {
		return nil, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pod.Namespace, name, pod.Namespace, pod.Name)
	}
	if claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, fmt.Errorf("error processing PVC %s/%s: PVC is not bound", pod.Namespace, name)
	}
	pv, err := o.Volume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: failed to fetch PV %s from API server: %w", pod.Namespace, name, claim.Spec.VolumeName, err)
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID || ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		return nil, fmt.Errorf("error processing PVC %s/%s: PV %s is bound to another claim", pod.Namespace, name, pv.Name)
	}
	s, err := persistentSource(pv)
	if err != nil {
		return nil, err
	}
	s.Namespace, s.Claim, s.ReadOnly = pod.Namespace, name, s.ReadOnly || readOnly
	s.grow(pv, claim)
	return s, nil
}

func ownedBy(pod *v1.Pod) func(ref ownerReference) bool {
	return func(ref ownerReference) bool { return ref.UID == pod.UID && ref.Controller != nil && *ref.Controller }
}

// persistentSource returns a PersistentVolume's source.
func persistentSource(pv *v1.PersistentVolume) (*source, error) {
	s := &source{
		Name: pv.Name, AccessModes: pv.Spec.AccessModes, MountOptions: pv.Spec.MountOptions,
		Block: pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == v1.PersistentVolumeBlock,
	}
	switch {
	case pv.Spec.CSI != nil:
		c := pv.Spec.CSI
		s.Plugin, s.Driver, s.Handle, s.FSType, s.Attributes, s.ReadOnly = csiPlugin, c.Driver, c.VolumeHandle, c.FSType, c.VolumeAttributes, c.ReadOnly
		s.StageSecret, s.PublishSecret, s.ExpandSecret = c.NodeStageSecretRef, c.NodePublishSecretRef, c.NodeExpandSecretRef
	case pv.Spec.Local != nil:
		s.Plugin, s.Path = localPlugin, pv.Spec.Local.Path
		if pv.Spec.Local.FSType != nil {
			s.FSType = *pv.Spec.Local.FSType
		}
	case pv.Spec.HostPath != nil:
		s.Plugin, s.Path, s.Type = hostPlugin, pv.Spec.HostPath.Path, pv.Spec.HostPath.Type
	default:
		return nil, fmt.Errorf("PersistentVolume %s: this node supports volumes of kind csi, local and hostPath only", pv.Name)
	}
	return s, nil
}

// growth returns the size to which a volume's file system must be expanded, zero if it need not be expanded. The
// driver of a claim that requests no more than it has need not expand it: its PersistentVolume is not read. Other volumes
// grow with their PersistentVolume.
func (o *Objects) growth(ctx context.Context, s source) (int64, error) {
	if o.Claim == nil || o.Volume == nil {
		return s.Size, nil
	}
	claim, err := o.Claim(ctx, s.Namespace, s.Claim)
	if err != nil {
		return 0, err
	}
	has := claim.Status.Capacity[v1.ResourceStorage]
	if want, known := claim.Spec.Resources.Requests[v1.ResourceStorage]; s.Plugin == csiPlugin && known && want.Cmp(has) <= 0 {
		return 0, nil
	}
	pv, err := o.Volume(ctx, s.Name)
	if err != nil {
		return 0, err
	}
	s.Size = 0
	s.grow(pv, claim)
	return s.Size, nil
}

// grow sets the size for an expansion if the volume is larger than its claim's status says.
func (s *source) grow(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) {
	has, known := claim.Status.Capacity[v1.ResourceStorage]
	if size := pv.Spec.Capacity[v1.ResourceStorage]; known && size.Cmp(has) > 0 && !s.ReadOnly {
		s.Size = size.Value()
	}
}

type ownerReference = metav1.OwnerReference
