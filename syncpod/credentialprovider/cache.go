package credentialprovider

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// maxCached is the greatest number of cached results. Further results are used and not cached.
const maxCached = 4096

// A cacheKey names the credentials from a plugin for an account. scope is the repository or registry of their images, "" for
// all.
type cacheKey struct{ plugin, account, scope string }

type cached struct {
	auth  map[string]auth
	until time.Time
}

// cache has the credentials that plugins have returned. The zero cache is empty. Its methods may be called concurrently.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]cached
	running map[cacheKey]*run
	failed  map[cacheKey]failed
}

// firstPause is how long a plugin failure is cached. It doubles with each further one, up to lastPause.
const firstPause, lastPause = 10 * time.Second, 5 * time.Minute

// failed is a run's failure, which is repeated after a pause.
type failed struct {
	err   error
	until time.Time
	pause time.Duration
}

// failure returns the failure of the last run for a key, nil if the plugin may run.
func (c *cache) failure(key cacheKey, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.failed[key]; now.Before(f.until) {
		return f.err
	}
	return nil
}

// note records whether a run has failed. A plugin that hangs would delay each container start by a minute otherwise.
func (c *cache) note(key cacheKey, r *run, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.failed[key]
	switch {
	case r.abandoned:
		return
	case r.err == nil:
		delete(c.failed, key)
		return
	case c.failed == nil:
		c.failed = map[cacheKey]failed{}
	}
	maps.DeleteFunc(c.failed, func(_ cacheKey, f failed) bool { return now.Sub(f.until) > lastPause })
	if _, known := c.failed[key]; !known && len(c.failed) >= maxCached {
		return
	}
	pause := min(max(2*last.pause, firstPause), lastPause)
	c.failed[key] = failed{r.err, now.Add(pause), pause}
}

// registryOf returns a repository's registry, with its port.
func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}

// find returns the credentials valid at a time: for the repository, else for its registry, else for all images.
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

// A run is one run of a plugin, whose result all callers share that wait for it. The fields but done are set once done is closed.
type run struct {
	done chan struct{}
	auth map[string]auth
	err  error
	// abandoned is set if the caller that started the run gave up: its error says nothing about the plugin.
	abandoned bool
}

// begin returns the run for a key, and whether the caller has to carry it out and to end it.
func (c *cache) begin(key cacheKey) (r *run, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.running[key]; ok {
		return r, false
	}
	if c.running == nil {
		c.running = map[cacheKey]*run{}
	}
	r = &run{done: make(chan struct{})}
	c.running[key] = r
	return r, true
}

// end passes a run's result to the callers that wait for it.
func (c *cache) end(key cacheKey, r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, key)
	close(r.done)
}
