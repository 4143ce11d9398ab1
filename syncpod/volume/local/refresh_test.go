package local_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume/local"
)

func refresh(t *testing.T, v *local.Volumes, pod *v1.Pod, dir string) (in time.Duration) {
	t.Helper()
	next := must.Get(v.Refresh(t.Context(), pod, dir))(t)
	if next.IsZero() {
		return 0
	}
	return time.Until(next)
}

// version returns the current version directory of the volume "vol".
func version(t *testing.T, dir, plugin string) string {
	t.Helper()
	return must.Get(os.Readlink(filepath.Join(dir, "volumes", plugin, "vol/..data")))(t)
}

// Objects that have changed are updated in the volume. Unchanged objects are not
// written, and immutable objects are not requested.
func TestRefresh(t *testing.T) {
	immutable := &v1.ConfigMap{Data: map[string]string{"a.conf": "A"}, Immutable: ptr(true)}
	projected := &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: conf().LocalObjectReference}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{field("n", "metadata.name")}}},
	}}
	relabel := func(_ *store, pod *v1.Pod) { pod.Labels["app"] = "shop" }
	edit := func(s *store, _ *v1.Pod) {
		s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "A2"}}
	}
	for name, tt := range map[string]struct {
		source v1.VolumeSource
		plugin string
		start  *v1.ConfigMap
		change func(*store, *v1.Pod)
		want   []string
		again  time.Duration
	}{
		"a ConfigMap": {v1.VolumeSource{ConfigMap: conf()}, "kubernetes.io~configmap", nil, edit, []string{"a.conf 0644 A2"}, time.Minute},
		"a Secret": {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}, "kubernetes.io~secret", nil,
			func(s *store, _ *v1.Pod) {
				s.secrets["shop/keys"] = &v1.Secret{Data: map[string][]byte{"tls.key": []byte("new")}}
			}, []string{"tls.key 0644 new"}, time.Minute},
		"the pod": {v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{field("l", "metadata.labels")}}},
			"kubernetes.io~downward-api", nil, relabel, []string{`l 0644 app="shop"`}, 0},
		"projected": {v1.VolumeSource{Projected: projected}, "kubernetes.io~projected", nil, edit, []string{"a.conf 0644 A2", "n 0644 web"}, time.Minute},
		"an immutable ConfigMap and another of its name": {v1.VolumeSource{ConfigMap: conf()}, "kubernetes.io~configmap", immutable, edit,
			[]string{"a.conf 0644 A"}, 0},
		"an immutable ConfigMap that is gone": {v1.VolumeSource{ConfigMap: conf()}, "kubernetes.io~configmap", immutable,
			func(s *store, _ *v1.Pod) { clear(s.configMaps) }, []string{"a.conf 0644 A"}, 0},
		"a ConfigMap that becomes immutable": {v1.VolumeSource{ConfigMap: conf()}, "kubernetes.io~configmap", nil,
			func(s *store, _ *v1.Pod) {
				s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "last"}, Immutable: ptr(true)}
			}, []string{"a.conf 0644 last"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, dir := newStore(), t.TempDir()
			if tt.start != nil {
				s.configMaps["shop/conf"] = tt.start
			}
			v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: s, Unprivileged: true})
			pod := podWith(named("vol", tt.source))
			setUp(t, v, pod, dir)
			refresh(t, v, pod, dir)
			if got := version(t, dir, tt.plugin); got != "..1" {
				t.Errorf("%s: written again as %s, although nothing has changed", name, got)
			}
			tt.change(s, pod)
			if got := refresh(t, v, pod, dir); got != tt.again {
				t.Errorf("%s: again in %v, want %v", name, got, tt.again)
			}
			if got := tree(t, filepath.Join(dir, "volumes", tt.plugin, "vol")); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %q, want %q", name, got, tt.want)
			}
		})
	}
}

// After the pod is removed, its copy of an immutable ConfigMap is not used for other pods.
func TestImmutableUntilTearDown(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "A"}, Immutable: ptr(true)}
	v := newVolumes(t, local.Config{ConfigMaps: s, Unprivileged: true})
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf()}))
	path := filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")
	setUp(t, v, pod, dir)
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "B"}, Immutable: ptr(true)}
	setUp(t, v, pod, dir)
	if got := tree(t, path); !slices.Equal(got, []string{"a.conf 0644 A"}) {
		t.Errorf("the same pod has %q", got)
	}
	must.Do(t, errors.Join(v.TearDown(t.Context(), pod.UID, dir), os.RemoveAll(path)))
	setUp(t, v, pod, dir)
	if got := tree(t, path); !slices.Equal(got, []string{"a.conf 0644 B"}) {
		t.Errorf("a new pod in its place has %q", got)
	}
}

// A failed refresh leaves the volume unchanged, reports all failures, and
// updates the other volumes.
func TestRefreshFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newStore(), t.TempDir()
		v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: s, Unprivileged: true})
		pod := podWith(
			named("vol", v1.VolumeSource{ConfigMap: conf()}),
			named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}),
		)
		setUp(t, v, pod, dir)
		delete(s.configMaps, "shop/conf")
		s.secrets["shop/keys"] = &v1.Secret{Data: map[string][]byte{"tls.key": []byte("new")}}
		next, err := v.Refresh(t.Context(), pod, dir)
		if err == nil || !strings.Contains(err.Error(), `volume "vol" (configMap) of pod shop/web: configMap "conf"`) {
			t.Errorf("error is %v, want an error and %q in it", err, `volume "vol" (configMap) of pod shop/web: configMap "conf"`)
		}
		if in := time.Until(next); in != 30*time.Second {
			t.Errorf("again in %v, want %v", in, 30*time.Second)
		}
		if got := tree(t, filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")); len(got) != 3 {
			t.Errorf("left of the volume: %q", got)
		}
		if got, want := tree(t, filepath.Join(dir, "volumes/kubernetes.io~secret/keys")), []string{"tls.key 0644 new"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Only what SetUp has made is brought up to date.
func TestRefreshMakesNothing(t *testing.T) {
	dir := t.TempDir()
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf()}), named("cache", emptyDir()))
	if in := refresh(t, unprivileged(t), pod, dir); in != 0 {
		t.Errorf("again in %v, want 0", in)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("made %v, want no entries", entries)
	}
	if _, err := unprivileged(t).Refresh(t.Context(), nil, dir); err == nil {
		t.Error("no pod is no error")
	}
}

// A pod without files costs nothing.
func TestRefreshOfNothing(t *testing.T) {
	pod, v, ctx := podWith(named("cache", emptyDir())), unprivileged(t), t.Context()
	if n := testing.AllocsPerRun(10, func() { _, _ = v.Refresh(ctx, pod, "/nowhere") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// issuer issues numbered tokens, or returns an error, optionally together with the last token.
type issuer struct {
	asked int
	err   error
	last  string
}

func (i *issuer) Token(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
	i.asked++
	if i.err != nil {
		return i.last, i.err
	}
	return fmt.Sprintf("token-%d", i.asked), nil
}

// A token is renewed after four fifths of its lifetime, or after a day, even by a restarted
// agent. Until then no token is requested.
func TestTokensAreRenewed(t *testing.T) {
	for _, tt := range []struct {
		seconds *int64
		renewal time.Duration
	}{
		{nil, 48 * time.Minute},
		{ptr[int64](600), 8 * time.Minute},
		{ptr[int64](0), 8 * time.Minute}, // the shortest lifetime that may be requested
		{ptr[int64](7 * 24 * 3600), 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			tokens, dir, s := &issuer{}, t.TempDir(), newStore()
			pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t/token", ExpirationSeconds: tt.seconds}},
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: conf().LocalObjectReference, Optional: ptr(true)}},
			}}}))
			delete(s.configMaps, "shop/conf")
			want := func(files ...string) {
				t.Helper()
				if got := tree(t, filepath.Join(dir, "volumes/kubernetes.io~projected/vol")); !slices.Equal(got, files) {
					t.Errorf("%q, want %q", got, files)
				}
			}
			agent := func() *local.Volumes {
				return newVolumes(t, local.Config{ConfigMaps: s, Tokens: tokens, Unprivileged: true})
			}
			setUp(t, agent(), pod, dir)
			time.Sleep(tt.renewal - time.Second)
			setUp(t, agent(), pod, dir)
			// A new file in the volume does not change the age of the token.
			s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a": "A"}}
			if in := refresh(t, agent(), pod, dir); in != time.Second {
				t.Errorf("again in %v, want a second", in)
			}
			want("a 0644 A", "t/token 0644 token-1")
			time.Sleep(time.Second)
			if in := refresh(t, agent(), pod, dir); in != time.Minute {
				t.Errorf("again in %v, want a minute", in)
			}
			want("a 0644 A", "t/token 0644 token-2")
			if tokens.asked != 2 {
				t.Errorf("asked for %d tokens, want 2", tokens.asked)
			}
		})
	}
}

// A token that cannot be renewed is used until it expires: nothing waits for
// the issuer until then.
func TestTokensThatCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, dir := &issuer{}, t.TempDir()
		v := newVolumes(t, local.Config{Tokens: tokens, Unprivileged: true})
		pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}))
		setUp(t, v, pod, dir)
		tokens.err = errors.New("the server is unavailable")
		time.Sleep(50 * time.Minute)
		next, err := v.Refresh(t.Context(), pod, dir)
		if err == nil || !strings.Contains(err.Error(), "not renewed: the server is unavailable") || time.Until(next) != 30*time.Second {
			t.Errorf("again in %v, %v, want an error and %q in it and %v", time.Until(next), err, "not renewed: the server is unavailable", 30*time.Second)
		}
		setUp(t, v, pod, dir)
		if got := version(t, dir, "kubernetes.io~projected"); got != "..1" {
			t.Errorf("the token was written again as %s", got)
		}
		time.Sleep(10 * time.Minute)
		if err := v.SetUp(t.Context(), pod, dir); err == nil {
			t.Error("a container may start with a token that has expired")
		}
		tokens.err = nil
		setUp(t, v, pod, dir)
		if got := version(t, dir, "kubernetes.io~projected"); got != "..2" {
			t.Errorf("the version is %s, want the second", got)
		}
	})
}

// A pod starts with the last token that was issued, if there is nothing better, and gets
// another one soon after that can be had.
func TestLastTokenThatWasIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, dir := &issuer{err: errors.New("the server is unavailable"), last: "old"}, t.TempDir()
		v := newVolumes(t, local.Config{Tokens: tokens, Unprivileged: true})
		pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}))
		read := func() string {
			text := must.Get(os.ReadFile(filepath.Join(dir, "volumes/kubernetes.io~projected/vol/token")))(t)
			return string(text)
		}
		for range 3 {
			setUp(t, v, pod, dir)
			next, err := v.Refresh(t.Context(), pod, dir)
			if err == nil || !strings.Contains(err.Error(), "may have expired") || time.Until(next) != 30*time.Second || read() != "old" {
				t.Errorf("%q, again in %v, %v, want %q, %v and an error", read(), time.Until(next), err, "old", 30*time.Second)
			}
			time.Sleep(time.Hour)
		}
		tokens.err = nil
		if in := refresh(t, v, pod, dir); in != 48*time.Minute || !strings.HasPrefix(read(), "token-") {
			t.Errorf("%q, again in %v, want a new one and %v", read(), in, 48*time.Minute)
		}
	})
}

// A clock that was set back does not keep a token from being renewed.
func TestTokenFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, dir := &issuer{}, t.TempDir()
		v := newVolumes(t, local.Config{Tokens: tokens, Unprivileged: true})
		pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}))
		setUp(t, v, pod, dir)
		later := time.Now().Add(time.Hour)
		must.Do(t, os.Chtimes(filepath.Join(dir, "volumes/kubernetes.io~projected/vol/..data/token"), later, later))
		if in := refresh(t, v, pod, dir); in != 48*time.Minute || tokens.asked != 2 {
			t.Errorf("asked %d times, again in %v", tokens.asked, in)
		}
	})
}

// N6: an issuer may grant a shorter lifetime than requested. The token contains it, and is renewed in time,
// even by the next agent. An unreadable token, or one with impossible times, counts as valid for the requested
// time.
func TestN6_TokensAreRenewedByTheTimeGranted(t *testing.T) {
	jwt := func(claims string) string {
		return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	for token, want := range map[string]time.Duration{
		jwt(`{"iat": 946684800, "exp": 946688400}`): 48 * time.Minute, // an hour
		jwt(`{"iat": 946684800, "exp": 978220800}`): 8 * time.Hour,    // a year: more than was requested
		jwt(`{"iat": 946684800, "exp": 946684800}`): 8 * time.Hour,
		jwt(`{"iat": -1, "exp": 3600}`):             8 * time.Hour,
		jwt(`{"iat": 1, "exp": 1e300}`):             8 * time.Hour,
		jwt(`{"exp": "soon"}`):                      8 * time.Hour,
		jwt(`[`):                                    8 * time.Hour,
		"sesame":                                    8 * time.Hour,
		"a.b.c":                                     8 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, dir := 0, t.TempDir()
			issue := tokensFunc(func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
				asked++
				return token, nil
			})
			v := newVolumes(t, local.Config{Unprivileged: true, Tokens: issue})
			pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr(int64(36000))}},
			}}}))
			setUp(t, v, pod, dir)
			next := newVolumes(t, local.Config{Unprivileged: true, Tokens: issue})
			if in := refresh(t, next, pod, dir); in != want || asked != 1 {
				t.Errorf("%q: asked %d times, again in %v, want once and %v", token, asked, in, want)
			}
			time.Sleep(want)
			if refresh(t, next, pod, dir); asked != 2 {
				t.Errorf("%q: asked %d times after %v, want twice", token, asked, want)
			}
		})
	}
}

// An issuer that gives the same token again is not asked all the time.
func TestTokenThatStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, dir := 0, t.TempDir()
		v := newVolumes(t, local.Config{Unprivileged: true, Tokens: tokensFunc(
			func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
				asked++
				return "sesame", nil
			},
		)})
		pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}))
		setUp(t, v, pod, dir)
		for range 3 {
			time.Sleep(time.Until(time.Now().Add(refresh(t, v, pod, dir))))
			refresh(t, v, pod, dir)
		}
		if got := version(t, dir, "kubernetes.io~projected"); asked != 4 || got != "..1" {
			t.Errorf("asked %d times, version %s", asked, got)
		}
	})
}

// The periodic refresh of an unchanged pod, once a minute.
func BenchmarkRefresh(b *testing.B) {
	s, dir := newStore(), b.TempDir()
	v := must.Get(local.New(local.Config{ConfigMaps: s, Secrets: s, Unprivileged: true}))(b)
	pod := podWith(
		named("vol", v1.VolumeSource{ConfigMap: conf()}),
		named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}),
	)
	must.Do(b, v.SetUp(b.Context(), pod, dir))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(v.Refresh(b.Context(), pod, dir))(b)
	}
}

// An answer that arrives after the work on the pod was abandoned is not written, because other work may use
// the directory by then.
func TestAnswerTooLate(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	late := env.ConfigMapsFunc(func(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
		cancel()
		return s.ConfigMap(t.Context(), namespace, name)
	})
	pod, path := podWith(named("vol", v1.VolumeSource{ConfigMap: conf()})), filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")
	v := newVolumes(t, local.Config{ConfigMaps: late, Unprivileged: true})
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "old"}, Immutable: ptr(true)}
	if err := v.SetUp(ctx, pod, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("it was written")
	}
	// Such an answer is not used for a new pod either.
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "new"}}
	setUp(t, v, pod, dir)
	if got, want := tree(t, path), []string{"a.conf 0644 new"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTokenTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir, tokens := t.TempDir(), tokensFunc(func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
		cancel()
		return "token", nil
	})
	pod := podWith(named("api", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
		Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}},
	}}))
	if err := newVolumes(t, local.Config{Tokens: tokens, Unprivileged: true}).SetUp(ctx, pod, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "volumes/kubernetes.io~projected/api")); err == nil {
		t.Error("it was written")
	}
}

// A source may return nil for a missing object, as for
// environment variables.
func TestSourceThatHasNothing(t *testing.T) {
	none := local.Config{
		ConfigMaps:   env.ConfigMapsFunc(func(context.Context, string, string) (*v1.ConfigMap, error) { return nil, nil }),
		Secrets:      env.SecretsFunc(func(context.Context, string, string) (*v1.Secret, error) { return nil, nil }),
		Unprivileged: true,
	}
	secret := func(optional bool) v1.VolumeSource {
		return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys", Optional: &optional}}
	}
	optional := conf()
	optional.Optional = new(bool)
	*optional.Optional = true
	v := newVolumes(t, none)
	setUp(t, v, podWith(named("vol", v1.VolumeSource{ConfigMap: optional}), named("keys", secret(true))), t.TempDir())
	for _, source := range []v1.VolumeSource{{ConfigMap: conf()}, secret(false)} {
		if err := v.SetUp(t.Context(), podWith(named("vol", source)), t.TempDir()); !env.NotFound(err) {
			t.Errorf("error %v, want that it is not there", err)
		}
	}
}

// Without the right to mount, too, a container that has mounted a directory of a
// ConfigMap by a subPath keeps its files until the next one is made.
func TestSubPathIsNotUpdatedWithoutMounts(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	v := newVolumes(t, local.Config{ConfigMaps: s, Unprivileged: true})
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "etc/a"})}))
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = "etc"
	change := func(text string) {
		s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": text}}
		refresh(t, v, pod, dir)
	}
	setUp(t, v, pod, dir)
	for _, round := range []string{"1", "2"} {
		change(round)
		mounted := mountsOf(t, v, pod, dir)[0].HostPath
		change(round + " and later")
		change(round + " and last")
		if text, err := os.ReadFile(filepath.Join(mounted, "a")); string(text) != round {
			t.Errorf("it reads %q, %v, want %q", text, err, round)
		}
	}
	versions, err := filepath.Glob(filepath.Join(dir, "volumes/kubernetes.io~configmap/vol/..[0-9]*"))
	if err != nil || len(versions) != 2 {
		t.Errorf("%q are kept, %v, want the version in use and the newest", versions, err)
	}
}
