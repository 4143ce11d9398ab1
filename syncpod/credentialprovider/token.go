package credentialprovider

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/volume"
)

// tokenSeconds is the lifetime that a plugin's token is requested with.
const tokenSeconds = int64(3600)

// A tokenKey identifies a token by pod, service account and audience. A service account that was recreated has another UID.
type tokenKey struct {
	pod, account types.UID
	audience     string
}

type heldToken struct {
	text         string
	renew, until time.Time
}

// tokens keeps the tokens that were requested for plugins until they must be renewed, because credentials that were cached
// for a token are of no use for the next one. The zero tokens is empty. Its methods may be called concurrently.
type tokens struct {
	mu   sync.Mutex
	held map[tokenKey]heldToken
}

// get returns a pod's token: the one that is held until it must be renewed, and while it cannot be renewed until it expires.
func (t *tokens) get(ctx context.Context, source volume.Tokens, pod *v1.Pod, account types.UID, audience string) (string, error) {
	key := tokenKey{pod.UID, account, audience}
	old := t.find(key)
	if time.Now().Before(old.renew) {
		return old.text, nil
	}
	text, err := source.Token(ctx, pod, &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: new(tokenSeconds)})
	now := time.Now()
	if err != nil && now.Before(old.until) {
		return old.text, nil
	}
	if err != nil {
		return "", err
	}
	life := volume.TokenLifetime(new(tokenSeconds), []byte(text))
	t.hold(key, heldToken{text, now.Add(volume.TokenRenewal(life)), now.Add(life)}, now)
	return text, nil
}

func (t *tokens) find(key tokenKey) heldToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[key]
}

func (t *tokens) hold(key tokenKey, h heldToken, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.held, func(_ tokenKey, h heldToken) bool { return !now.Before(h.until) })
	if t.held == nil {
		t.held = map[tokenKey]heldToken{}
	}
	if _, known := t.held[key]; known || len(t.held) < maxCached {
		t.held[key] = h
	}
}
