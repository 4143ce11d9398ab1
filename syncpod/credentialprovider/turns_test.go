package credentialprovider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// While as many processes of a plugin run as may, pods wait for their turn, and those of other plugins do not. A pod whose image the answer
// for another one covers runs none.
func TestPluginsRunInTurns(t *testing.T) {
	dir := t.TempDir()
	const providers = `{kind: CredentialProviderConfig, apiVersion: kubelet.config.k8s.io/v1, providers: [
{name: a, matchImages: [a.io], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1},
{name: b, matchImages: [b.io], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}`
	err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(providers), 0o600)
	for _, name := range []string{"a", "b"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("no program"), 0o600)) // each run is an error
	}
	must.Do(t, err)
	p := must.Get(New(Config{File: filepath.Join(dir, "config.yaml"), BinDir: dir}))(t)
	ask := func(ctx context.Context, image string) error {
		_, err := p.PullSecrets(ctx, &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: image}}}})
		return err
	}
	for range maxRuns {
		p.turns["a"] <- struct{}{}
	}
	late, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("too late"))
	defer cancel()
	if err := ask(late, "a.io/one"); err == nil || !errors.Is(err, context.Cause(late)) {
		t.Errorf("with too many processes: %v", err)
	}
	if err := ask(t.Context(), "b.io/one"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("another plugin: %v, want %v", err, os.ErrPermission)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- ask(t.Context(), "a.io/two") }()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		p.cache.mu.Lock()
		waits = len(p.cache.running) > 0
		p.cache.mu.Unlock()
	}
	p.cache.keep("a", "", "a.io/one", &response{CacheKeyType: perRegistry}, time.Hour, time.Now())
	<-p.turns["a"]
	if err := <-waiting; err != nil {
		t.Errorf("the answer for another image of the registry is not used: %v", err)
	}
	if running := len(p.turns["a"]); running != maxRuns-1 {
		t.Errorf("%d turns are taken, want %d", running, maxRuns-1)
	}
}
