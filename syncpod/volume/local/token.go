package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/volume"
)

// maxKept is the maximum size of an existing file that is kept, in bytes.
const maxKept = 1 << 20

// token adds a token's file: the existing one, until it must be renewed. If the renewal fails, it
// is used until it expires, and then the last one that Tokens returned.
func (c *content) token(ctx context.Context, ask *v1.ServiceAccountTokenProjection, mode int32) error {
	c.secret = true
	if c.config.Tokens == nil {
		return errors.New("serviceAccountToken: there is no source of tokens (syncpod.Config.Objects.Tokens)")
	}
	name, err := cleanPath(ask.Path)
	if err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	f := c.lastFile(name)
	life := volume.TokenLifetime(ask.ExpirationSeconds, f.data)
	next := f.got.Add(volume.TokenRenewal(life))
	if !f.isYounger(volume.TokenRenewal(life)) {
		token, err := c.config.Tokens.Token(ctx, c.pod, ask)
		switch now := time.Now(); {
		case err == nil:
			f = file{data: []byte(token), got: now}
			next = now.Add(volume.TokenRenewal(volume.TokenLifetime(ask.ExpirationSeconds, f.data)))
		case f.isYounger(life):
			next = now.Add(retryInterval)
			c.stale = append(c.stale, fmt.Errorf("serviceAccountToken: not renewed: %w", err))
		case token != "":
			f = file{data: []byte(token), got: now.Add(-life)}
			next = now.Add(retryInterval)
			c.stale = append(c.stale, fmt.Errorf("serviceAccountToken: it may have expired, and is not renewed: %w", err))
		default:
			return fmt.Errorf("serviceAccountToken: %w", err)
		}
	}
	f.mode, f.user = c.owners.token(mode), c.owners.user
	c.nextAt(next)
	if err := c.put(name, f); err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	return nil
}

// lastFile returns a file that the volume already has, or the zero file. Its age is the content's age.
func (c *content) lastFile(name string) file {
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return file{}
	}
	defer root.Close()
	name = path.Join(dataLink, name)
	opened, info, err := hostfs.Open(root, name)
	if err != nil {
		return file{}
	}
	defer opened.Close()
	data, err := io.ReadAll(io.LimitReader(opened, maxKept+1))
	if err != nil || len(data) > maxKept {
		return file{}
	}
	return file{data: data, got: info.ModTime()}
}

// isYounger reports whether f is a token below that age. One from the future has no
// age that could be relied on: the clock was set.
func (f *file) isYounger(age time.Duration) bool {
	is := time.Since(f.got)
	return !f.got.IsZero() && 0 <= is && is < age
}
