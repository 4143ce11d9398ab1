package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// These are the API's: defaultTokenLife is the time that a token is asked for if its
	// volume does not say, minTokenLife the shortest that may be asked for, and
	// maxTokenAge the age at which one is renewed at the latest.
	defaultTokenLife = time.Hour
	minTokenLife     = 10 * time.Minute
	maxTokenAge      = 24 * time.Hour
)

func lifeOf(ask *v1.ServiceAccountTokenProjection) time.Duration {
	if ask.ExpirationSeconds == nil {
		return defaultTokenLife
	}
	return max(time.Duration(*ask.ExpirationSeconds)*time.Second, minTokenLife)
}

// token adds the file of a token: the one that is there, until it is due to be
// renewed. If that fails it serves for the rest of its life, and then the last one that
// Tokens know.
func (c *content) token(ctx context.Context, ask *v1.ServiceAccountTokenProjection, mode int32) error {
	c.secret = true
	if c.config.Tokens == nil {
		return errors.New("serviceAccountToken: there is no source of tokens (syncpod.Config.Objects.Tokens)")
	}
	name, err := cleanPath(ask.Path)
	if err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	life := lifeOf(ask)
	renewal := min(life*8/10, maxTokenAge)
	f := c.lastToken(name)
	if !f.isYounger(renewal) {
		token, err := c.config.Tokens.Token(ctx, c.pod, ask)
		switch {
		case err == nil:
			f = file{data: []byte(token), got: time.Now()}
		case f.isYounger(life):
			renewal = time.Since(f.got) + retryInterval
			c.stale = append(c.stale, fmt.Errorf("serviceAccountToken: not renewed: %w", err))
		case token != "":
			f = file{data: []byte(token), got: time.Now().Add(-life)}
			renewal = life + retryInterval
			c.stale = append(c.stale, fmt.Errorf("serviceAccountToken: it may have expired, and is not renewed: %w", err))
		default:
			return fmt.Errorf("serviceAccountToken: %w", err)
		}
	}
	f.mode, f.user = c.owners.token(mode), c.owners.user
	c.nextAt(f.got.Add(renewal))
	if err := c.put(name, f); err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	return nil
}

// lastToken returns the token that is in the volume, the zero file if there is none.
// Its age is that of its file.
func (c *content) lastToken(name string) file {
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return file{}
	}
	defer root.Close()
	name = path.Join(dataLink, name)
	info, err := root.Stat(name)
	if err != nil {
		return file{}
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return file{}
	}
	return file{data: data, got: info.ModTime()}
}

// isYounger reports whether f is a token of less than that age. One from the future
// has no age that could be relied on: the clock was set.
func (f *file) isYounger(age time.Duration) bool {
	is := time.Since(f.got)
	return !f.got.IsZero() && 0 <= is && is < age
}
