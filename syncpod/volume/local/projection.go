package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// provided adds the files from a source that Config.Projections provides. They belong to the containers' user, like
// tokens. If the provider fails, its last answer's files are used, so that containers in a running pod can restart.
func (c *content) provided(ctx context.Context, vol *v1.Volume, index int, mode int32) error {
	s := &vol.Projected.Sources[index]
	if c.config.Projections == nil || s.ClusterTrustBundle == nil && s.PodCertificate == nil {
		return errors.New("there is no provider of sources of this kind")
	}
	p, err := c.config.Projections.Project(ctx, c.pod, vol, index)
	if err != nil {
		if p.Files = c.lastFiles(s); len(p.Files) == 0 {
			return err
		}
		p.Secret, p.Next = s.PodCertificate != nil, time.Now().Add(retryInterval)
		c.stale = append(c.stale, fmt.Errorf("projected.sources[%d]: %w", index, err))
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

// lastFiles returns the files from a source that the volume has, none if one is
// missing.
func (c *content) lastFiles(s *v1.VolumeProjection) map[string][]byte {
	var paths []string
	if s.ClusterTrustBundle != nil {
		paths = append(paths, s.ClusterTrustBundle.Path)
	}
	if cert := s.PodCertificate; cert != nil {
		paths = append(paths, cert.CredentialBundlePath, cert.KeyPath, cert.CertificateChainPath)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if path == "" {
			continue
		}
		name, err := cleanPath(path)
		if err != nil {
			return nil
		}
		if files[path] = c.lastFile(name).data; files[path] == nil {
			return nil
		}
	}
	return files
}
