package localvolume

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// provided adds the files of a source that Config.Projections provides. They belong to the user of the containers, like
// tokens.
func (c *content) provided(ctx context.Context, vol *v1.Volume, index int, mode int32) error {
	if s := &vol.Projected.Sources[index]; c.config.Projections == nil || s.ClusterTrustBundle == nil && s.PodCertificate == nil {
		return errors.New("there is no provider of sources of this kind")
	}
	p, err := c.config.Projections.Project(ctx, c.pod, vol, index)
	if err != nil {
		return err
	}
	c.secret = c.secret || p.Secret
	c.nextAt(p.Next)
	for _, path := range slices.Sorted(maps.Keys(p.Files)) {
		if err := c.put(path, file{data: p.Files[path], mode: c.owners.token(mode), user: c.owners.user}); err != nil {
			return err
		}
	}
	return nil
}
