package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
)

// AttachmentName returns the name of the VolumeAttachment of a volume on a node.
func AttachmentName(handle, driver, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// attachment returns the VolumeAttachment of a volume, nil if the volume needs none. It is an error if the volume is
// not attached.
func (o *Objects) attachment(ctx context.Context, s *source) (*storagev1.VolumeAttachment, error) {
	if o.Attachment == nil || s.Plugin != csiPlugin || s.Ephemeral {
		return nil, nil
	}
	about, err := o.driver(ctx, s.Driver)
	if err != nil || !about.attaches() {
		return nil, err
	}
	name := AttachmentName(s.Handle, s.Driver, o.node)
	found, err := o.Attachment(ctx, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("get VolumeAttachment %s of volume %s: %w", name, s.Name, err)
	case found == nil:
		return nil, fmt.Errorf("volume %s is not attached: there is no VolumeAttachment %s", s.Name, name)
	case found.DeletionTimestamp != nil:
		return nil, fmt.Errorf("volume %s is not attached: its VolumeAttachment %s is being deleted", s.Name, name)
	case !found.Status.Attached && found.Status.AttachError != nil:
		return nil, fmt.Errorf("volume %s is not attached: %.1024s", s.Name, found.Status.AttachError.Message)
	case !found.Status.Attached:
		return nil, fmt.Errorf("volume %s is not attached yet", s.Name)
	}
	return found, nil
}
