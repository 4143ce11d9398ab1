package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A backend carries out a volume's steps. Each method may be called again after a failure. If the error wraps
// errNotStarted, or is final, nothing has changed.
type backend interface {
	stage(ctx context.Context, s *source, pod Pod) error
	publish(ctx context.Context, s *source, pod Pod) error
	expand(ctx context.Context, s *source, pod types.UID) error
	unpublish(ctx context.Context, s *source, pod types.UID) error
	unstage(ctx context.Context, s *source) error
}

// csiBackend calls a CSI driver.
type csiBackend struct {
	layout
	objects *Objects
	driver  *driver
}

// podInfo returns the volume attributes that describe the pod, for drivers with CSIDriver.spec.podInfoOnMount.
func podInfo(pod Pod, ephemeral bool) map[string]string {
	return map[string]string{
		"csi.storage.k8s.io/pod.name": pod.Name, "csi.storage.k8s.io/pod.namespace": pod.Namespace, "csi.storage.k8s.io/pod.uid": pod.UID,
		"csi.storage.k8s.io/serviceAccount.name": pod.ServiceAccount, "csi.storage.k8s.io/ephemeral": fmt.Sprint(ephemeral),
	}
}

const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// stage calls NodeStageVolume.
func (b csiBackend) stage(ctx context.Context, s *source, pod Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secrets, err := b.secrets(ctx, "NodeStageSecretRef", s.StageSecret)
	if err != nil {
		return notStarted{err}
	}
	attachment, err := b.publishContext(ctx, s)
	if err != nil {
		return notStarted{err}
	}
	path := b.staging(s)
	if err := os.MkdirAll(path, dirMode); err != nil {
		return notStarted{err}
	}
	_, err = b.driver.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
		VolumeId: s.Handle, PublishContext: attachment, StagingTargetPath: path, VolumeCapability: b.capability(s, pod), Secrets: secrets, VolumeContext: s.Attributes,
	})
	if err == nil {
		return nil
	}
	failed := &callError{call: "NodeStageVolume", secrets: secrets, err: err}
	if failed.final() {
		_ = b.removeStaging(s) // the next attempt creates it again
	}
	return failed
}

// removeStaging removes the directory in which a volume was staged.
func (b csiBackend) removeStaging(s *source) error {
	path := b.staging(s)
	if err := removeEmptyDir(path); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // fails if it is not empty
	return nil
}

// publish calls NodePublishVolume, and changes the group of the files unless the driver does that.
func (b csiBackend) publish(ctx context.Context, s *source, pod Pod) error {
	about, err := b.objects.driver(ctx, s.Driver)
	if err != nil {
		return notStarted{err}
	}
	if err := b.callPublish(ctx, s, pod, about); err != nil {
		return err
	}
	if pod.FSGroup == nil || b.driver.groups || !about.ownsFiles(s) {
		return nil
	}
	target, err := b.target(types.UID(pod.UID), s)
	if err == nil {
		err = setOwnership(ctx, target, int(*pod.FSGroup), pod.Always)
	}
	if err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", s.Handle, err)
	}
	return nil
}

// callPublish calls NodePublishVolume.
func (b csiBackend) callPublish(ctx context.Context, s *source, pod Pod, about driverObject) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := about.allows(s); err != nil {
		return notStarted{err}
	}
	req, err := b.publishRequest(ctx, s, pod, about)
	if err != nil {
		return notStarted{err}
	}
	if err := os.MkdirAll(filepath.Dir(req.TargetPath), dirMode); err != nil {
		return notStarted{err}
	}
	if _, err := b.driver.node.NodePublishVolume(ctx, req); err != nil {
		failed := &callError{call: "NodePublishVolume", secrets: secretsOf(req), err: err}
		if failed.final() {
			_ = removeEmptyDir(req.TargetPath) // the next attempt creates it again
		}
		return failed
	}
	return nil
}

// secretsOf returns the values of a request that no error may contain.
func secretsOf(req *csipb.NodePublishVolumeRequest) map[string]string {
	secrets := maps.Clone(req.Secrets)
	if token := req.VolumeContext[tokensKey]; token != "" {
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[tokensKey] = token
	}
	return secrets
}

func (b csiBackend) publishRequest(ctx context.Context, s *source, pod Pod, about driverObject) (*csipb.NodePublishVolumeRequest, error) {
	target, err := b.target(types.UID(pod.UID), s)
	if err != nil {
		return nil, err
	}
	secrets, err := b.secrets(ctx, "NodePublishSecretRef", s.PublishSecret)
	if err != nil {
		return nil, err
	}
	attachment, err := b.publishContext(ctx, s)
	if err != nil {
		return nil, err
	}
	req := &csipb.NodePublishVolumeRequest{
		VolumeId: s.Handle, PublishContext: attachment, TargetPath: target, VolumeCapability: b.capability(s, pod), Readonly: s.ReadOnly,
		Secrets: secrets, VolumeContext: maps.Clone(s.Attributes),
	}
	if b.driver.stages && !s.Ephemeral {
		req.StagingTargetPath = b.staging(s)
	}
	if req.VolumeContext == nil {
		req.VolumeContext = map[string]string{}
	}
	if about.podInfo() {
		maps.Copy(req.VolumeContext, podInfo(pod, s.Ephemeral))
	}
	return req, about.addTokens(ctx, b.objects, pod, req)
}

// capability describes how the volume is used.
func (b csiBackend) capability(s *source, pod Pod) *csipb.VolumeCapability {
	c := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: b.accessMode(s)}}
	if s.Block {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return c
	}
	mount := &csipb.VolumeCapability_MountVolume{FsType: s.FSType, MountFlags: s.MountOptions}
	if b.driver.groups && pod.FSGroup != nil {
		mount.VolumeMountGroup = fmt.Sprint(*pod.FSGroup)
	}
	c.AccessType = &csipb.VolumeCapability_Mount{Mount: mount}
	return c
}

// accessMode converts the first access mode of the volume to CSI.
func (b csiBackend) accessMode(s *source) csipb.VolumeCapability_AccessMode_Mode {
	mode := v1.ReadWriteOnce
	if len(s.AccessModes) > 0 {
		mode = s.AccessModes[0]
	}
	switch mode {
	case v1.ReadOnlyMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case v1.ReadWriteMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case v1.ReadWriteOncePod:
		if b.driver.singleWriter {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
	case v1.ReadWriteOnce:
		if b.driver.singleWriter {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
	}
	return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// expand calls NodeExpandVolume.
func (b csiBackend) expand(ctx context.Context, s *source, pod types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secrets, err := b.secrets(ctx, "NodeExpandSecretRef", s.ExpandSecret)
	if err != nil {
		return notStarted{err}
	}
	path, err := b.target(pod, s)
	if err != nil {
		return notStarted{err}
	}
	req := &csipb.NodeExpandVolumeRequest{
		VolumeId: s.Handle, VolumePath: path, CapacityRange: &csipb.CapacityRange{RequiredBytes: s.Size}, VolumeCapability: b.capability(s, Pod{}), Secrets: secrets,
	}
	if b.driver.stages {
		req.StagingTargetPath = b.staging(s)
	}
	if _, err := b.driver.node.NodeExpandVolume(ctx, req); err != nil {
		return &callError{call: expandCall, secrets: secrets, err: err}
	}
	return nil
}

// unpublish calls NodeUnpublishVolume, and removes the files that the agent has created for it.
func (b csiBackend) unpublish(ctx context.Context, s *source, pod types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	target, err := b.target(pod, s)
	if err != nil {
		return err
	}
	if _, err := b.driver.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: s.Handle, TargetPath: target}); err != nil {
		return &callError{call: "NodeUnpublishVolume", err: err}
	}
	if s.Block {
		if err := removeDeviceFile(target); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(target)) // fails if it is not empty
		return nil
	}
	if err := removeEmptyDir(target); err != nil {
		return err
	}
	return removeEmptyDir(filepath.Dir(target))
}

// unstage calls NodeUnstageVolume.
func (b csiBackend) unstage(ctx context.Context, s *source) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	path := b.staging(s)
	if _, err := b.driver.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: s.Handle, StagingTargetPath: path}); err != nil {
		return &callError{call: "NodeUnstageVolume", err: err}
	}
	return b.removeStaging(s)
}

// secrets gets a secret that the driver needs.
func (b csiBackend) secrets(ctx context.Context, field string, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	if b.objects.Secrets == nil {
		return nil, fmt.Errorf("fetching %s %s/%s failed: this node knows no secrets", field, ref.Namespace, ref.Name)
	}
	secret, err := b.objects.Secrets.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("fetching %s %s/%s failed: %w", field, ref.Namespace, ref.Name, err)
	}
	text := map[string]string{}
	for key, value := range secret.Data {
		text[key] = string(value)
	}
	return text, nil
}

// publishContext returns the metadata of the volume's attachment, which the driver on the node needs.
func (b csiBackend) publishContext(ctx context.Context, s *source) (map[string]string, error) {
	attachment, err := b.objects.attachment(ctx, s)
	if err != nil || attachment == nil {
		return nil, err
	}
	return attachment.Status.AttachmentMetadata, nil
}

// A driverObject is a CSIDriver object, or the API's defaults if the driver has no such object.
type driverObject struct{ spec storagev1.CSIDriverSpec }

func (o *Objects) driver(ctx context.Context, name string) (driverObject, error) {
	if o.Driver == nil { // without an API server, the driver itself decides what it supports
		both := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
		return driverObject{storagev1.CSIDriverSpec{VolumeLifecycleModes: both}}, nil
	}
	found, err := o.Driver(ctx, name)
	if err != nil {
		return driverObject{}, fmt.Errorf("get CSIDriver %s: %w", name, err)
	}
	if found == nil {
		return driverObject{}, nil
	}
	return driverObject{found.Spec}, nil
}

func (d driverObject) podInfo() bool { return d.spec.PodInfoOnMount != nil && *d.spec.PodInfoOnMount }

func (d driverObject) republishes() bool {
	return d.spec.RequiresRepublish != nil && *d.spec.RequiresRepublish
}

func (d driverObject) attaches() bool { return d.spec.AttachRequired == nil || *d.spec.AttachRequired }

// allows returns an error if the driver does not support this use of the volume.
func (d driverObject) allows(s *source) error {
	mode := storagev1.VolumeLifecyclePersistent
	if s.Ephemeral {
		mode = storagev1.VolumeLifecycleEphemeral
	}
	modes := d.spec.VolumeLifecycleModes
	if len(modes) == 0 {
		modes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("driver %q does not support mode %q (only supports %q)", s.Driver, mode, modes)
	}
	return nil
}

// ownsFiles reports whether the agent changes the group of the files in a volume (CSIDriver.spec.fsGroupPolicy).
func (d driverObject) ownsFiles(s *source) bool {
	if s.ReadOnly || s.Block {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if d.spec.FSGroupPolicy != nil {
		policy = *d.spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.NoneFSGroupPolicy:
		return false
	}
	once := slices.Contains(s.AccessModes, v1.ReadWriteOnce) || slices.Contains(s.AccessModes, v1.ReadWriteOncePod)
	return s.FSType != "" && once
}

// addTokens adds the tokens for the pod's service account that the CSIDriver
// requests.
func (d driverObject) addTokens(ctx context.Context, o *Objects, pod Pod, req *csipb.NodePublishVolumeRequest) error {
	if len(d.spec.TokenRequests) == 0 {
		return nil
	}
	if o.Tokens == nil {
		return errors.New("the driver asks for tokens of the pod's service account, and this node has none")
	}
	text, err := o.Tokens(ctx, pod, d.spec.TokenRequests)
	if err != nil {
		return fmt.Errorf("get tokens of service account %s/%s: %w", pod.Namespace, cmp.Or(pod.ServiceAccount, "default"), err)
	}
	if d.spec.ServiceAccountTokenInSecrets != nil && *d.spec.ServiceAccountTokenInSecrets {
		if req.Secrets == nil {
			req.Secrets = map[string]string{}
		}
		req.Secrets[tokensKey] = text
		return nil
	}
	req.VolumeContext[tokensKey] = text
	return nil
}
