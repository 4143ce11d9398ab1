package volume

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/base/regular"
)

const (
	// These are the API's: defaultTokenLife is the default lifetime, minTokenLife the minimum, and
	// maxTokenAge the age at which a token is renewed at the latest.
	defaultTokenLife = time.Hour
	minTokenLife     = 10 * time.Minute
	maxTokenAge      = 24 * time.Hour
	// maxTokenSeconds is the maximum lifetime.
	maxTokenSeconds = 1 << 32

	// maxToken is the maximum number of bytes read of an existing token.
	maxToken = 1 << 20
)

// lifeOf returns the lifetime of a token: the requested one, or a shorter one in the token itself.
// The issuer may grant less than requested.
func lifeOf(ask *v1.ServiceAccountTokenProjection, token []byte) time.Duration {
	life := defaultTokenLife
	if ask.ExpirationSeconds != nil {
		life = max(time.Duration(*ask.ExpirationSeconds)*time.Second, minTokenLife)
	}
	if granted := grantedLife(token); granted > 0 {
		life = min(life, granted)
	}
	return life
}

// renewalOf returns the age at which a token is renewed.
func renewalOf(life time.Duration) time.Duration { return min(life*8/10, maxTokenAge) }

// grantedLife returns the time between the issue of a JSON Web Token and its expiry (RFC 7519),
// zero if it is not one or has no expiry. It counts from when the token was received, so a
// difference to the issuer's clock does not matter, and the next agent knows it too.
func grantedLife(token []byte) time.Duration {
	_, rest, _ := bytes.Cut(token, []byte("."))
	payload, _, signed := bytes.Cut(rest, []byte("."))
	text, err := base64.RawURLEncoding.DecodeString(string(payload))
	if err != nil || !signed {
		return 0
	}
	var claims struct {
		IssuedAt float64 `json:"iat"`
		Expires  float64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return 0
	}
	seconds := claims.Expires - claims.IssuedAt
	if claims.IssuedAt <= 0 || seconds < 1 || seconds > maxTokenSeconds {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// token adds the file of a token: the existing one, until it must be renewed. If the renewal fails,
// it is used until it expires, and then the last one that Tokens returned.
func (c *content) token(ctx context.Context, ask *v1.ServiceAccountTokenProjection, mode int32) error {
	c.secret = true
	if c.config.Tokens == nil {
		return errors.New("serviceAccountToken: there is no source of tokens (syncpod.Config.Objects.Tokens)")
	}
	name, err := cleanPath(ask.Path)
	if err != nil {
		return fmt.Errorf("serviceAccountToken: %w", err)
	}
	f := c.lastToken(name)
	life := lifeOf(ask, f.data)
	next := f.got.Add(renewalOf(life))
	if !f.isYounger(renewalOf(life)) {
		token, err := c.config.Tokens.Token(ctx, c.pod, ask)
		switch now := time.Now(); {
		case err == nil:
			f = file{data: []byte(token), got: now}
			next = now.Add(renewalOf(lifeOf(ask, f.data)))
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

// lastToken returns the token in the volume, the zero file if there is none. Its age is its
// file's.
func (c *content) lastToken(name string) file {
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return file{}
	}
	defer root.Close()
	name = path.Join(dataLink, name)
	token, info, err := regular.Open(root, name)
	if err != nil {
		return file{}
	}
	defer token.Close()
	data, err := io.ReadAll(io.LimitReader(token, maxToken+1))
	if err != nil || len(data) > maxToken {
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
