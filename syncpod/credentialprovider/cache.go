package credentialprovider

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// maxCached is the highest number of results that are cached: more are not.
const maxCached = 4096

// A cacheKey names credentials: of a plugin, for the images in scope, which is a repository, a registry or "" for all.
type cacheKey struct{ plugin, account, scope string }

type cached struct {
	auth  map[string]auth
	until time.Time
}

// cache has the credentials that plugins have returned. The zero cache is empty. Its methods may be called concurrently.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]cached
	// running has a channel for each run of a plugin, which is closed at its end.
	running map[cacheKey]chan struct{}
}

// registryOf returns the registry of a repository, with its port.
func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}

// find returns credentials that hold at a time: for the repository, else for its registry, else for all images.
func (c *cache) find(plugin, account, repository string, now time.Time) (map[string]auth, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scope := range []string{repository, registryOf(repository), ""} {
		if e, ok := c.entries[cacheKey{plugin, account, scope}]; ok && now.Before(e.until) {
			return e.auth, true
		}
	}
	return nil, false
}

// keep caches a response for a time.
func (c *cache) keep(plugin, account, repository string, r *response, hold time.Duration, now time.Time) {
	if hold <= 0 {
		return
	}
	scope := map[cacheKeyType]string{perImage: repository, perRegistry: registryOf(repository), perPlugin: ""}[r.CacheKeyType]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[cacheKey]cached{}
	}
	maps.DeleteFunc(c.entries, func(_ cacheKey, e cached) bool { return !now.Before(e.until) })
	if len(c.entries) < maxCached {
		c.entries[cacheKey{plugin, account, scope}] = cached{r.Auth, now.Add(hold)}
	}
}

// begin returns a channel if the same is under way, and else what ends it.
func (c *cache) begin(key cacheKey) (wait <-chan struct{}, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running, ok := c.running[key]; ok {
		return running, nil
	}
	if c.running == nil {
		c.running = map[cacheKey]chan struct{}{}
	}
	done := make(chan struct{})
	c.running[key] = done
	return nil, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, key)
		close(done)
	}
}
