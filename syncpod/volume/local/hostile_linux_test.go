package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// flip simulates a hostile container: it replaces a directory by a link and a FIFO as fast as it
// can. The link points to a directory that only its owner may enter.
func flip(t *testing.T, name string) (victim string) {
	t.Helper()
	victim = filepath.Join(t.TempDir(), "victim")
	must.Do(t, os.Mkdir(victim, 0o700))
	done := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Remove(name)
			_ = os.Symlink(victim, name)
			_ = os.Remove(name)
			_ = syscall.Mkfifo(name, 0o600)
			_ = os.Remove(name)
			_ = os.Mkdir(name, 0o700)
		}
	})
	t.Cleanup(func() {
		close(done)
		flipping.Wait()
	})
	return victim
}

// The directory of a hostPath is created in a directory to which a container may write. Links that the container
// creates there meanwhile do not change another directory's mode.
func TestHostPathIsMadeWhileALinkIsFlipped(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // so that modes are to be changed
	kind := v1.HostPathDirectoryOrCreate
	for _, below := range []string{"", "below/it"} {
		data := t.TempDir()
		victim := flip(t, filepath.Join(data, "name"))
		pod := podWith(named("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(data, "name", below), Type: &kind}}))
		for range 3000 {
			_ = unprivileged(t).SetUp(t.Context(), pod, data) // the result depends on the race
			if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o700 {
				t.Fatalf("%q: it has %v, %v", below, info.Mode(), err)
			}
		}
	}
}

// New files have the mode that a kubelet sets, regardless of the umask, and existing files keep
// their mode.
func TestHostPathModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	data := t.TempDir()
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(data, "there"), 0o700), os.Symlink("there", filepath.Join(data, "link"))))
	kind := v1.HostPathDirectoryOrCreate
	for path, want := range map[string]fs.FileMode{"there": 0o700, "link": 0o700, "new": 0o755, "link/a/b": 0o755, "there/a": 0o755} {
		at := filepath.Join(data, path)
		pod := podWith(named("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: at, Type: &kind}}))
		if err := unprivileged(t).SetUp(t.Context(), pod, data); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
}

// The same holds for a directory that is created for a subPath: links in the volume cannot leave it, and
// do not change the mode of their targets.
func TestSubPathIsMadeWhileALinkIsFlipped(t *testing.T) {
	dir, v := t.TempDir(), unprivileged(t)
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	at := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	inside := filepath.Join(at, "private")
	must.Do(t, os.Mkdir(inside, 0o700))
	done := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Remove(filepath.Join(at, "name"))
			_ = os.Symlink("private", filepath.Join(at, "name"))
			_ = os.Remove(filepath.Join(at, "name"))
		}
	})
	for range 3000 {
		_, _ = subPathOf(t, v, dir, v1.VolumeMount{SubPath: "name"})
		if info, err := os.Stat(inside); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("it has %v, %v", info.Mode(), err)
			break
		}
	}
	close(done)
	flipping.Wait()
}

// A FIFO where a hostPath volume is a directory holds up nothing.
func TestSubPathOfAHostPathThatIsAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	pod := podWith(named("vol", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: pipe}}))
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = "below"
	_, err := unprivileged(t).Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, dir)
	if !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v, want %v", err, syscall.ENOTDIR)
	}
}

// A subPath mounts a socket, a FIFO and a device without opening them (kubernetes #61377). Links lead to the file that is
// mounted, and no link is mounted itself.
func TestV16_SubPathOfASpecialFile(t *testing.T) {
	dir := t.TempDir()
	needsMount(t, dir)
	v := newVolumes(t, local.Config{})
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	at := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	if err := errors.Join(syscall.Mkfifo(filepath.Join(at, "pipe"), 0o600), syscall.Mknod(filepath.Join(at, "device"), syscall.S_IFCHR|0o600, 5<<8|1),
		syscall.Mknod(filepath.Join(at, "socket"), syscall.S_IFSOCK|0o600, 0), os.Symlink("pipe", filepath.Join(at, "link"))); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]fs.FileMode{
		"pipe": fs.ModeNamedPipe, "device": fs.ModeDevice | fs.ModeCharDevice, "socket": fs.ModeSocket, "link": fs.ModeNamedPipe,
	} {
		path, err := subPathOf(t, v, dir, v1.VolumeMount{SubPath: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	must.Do(t, v.TearDown(t.Context(), "u", dir))
	if left, err := mounts.Below(dir); err != nil || len(left) > 0 {
		t.Errorf("mounted after TearDown: %q, %v", left, err)
	}
}

// The existing token is read up to a limit, and only from a regular file.
func TestTokenThatIsTooLargeIsNotRead(t *testing.T) {
	dir := t.TempDir()
	asked := 0
	v := newVolumes(t, local.Config{Unprivileged: true, Tokens: tokensFunc(func(_ context.Context, _ *v1.Pod, _ *v1.ServiceAccountTokenProjection) (string, error) {
		asked++
		return fmt.Sprintf("token-%d", asked), nil
	})})
	pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	}}}))
	setUp(t, v, pod, dir)
	path := filepath.Join(dir, "volumes/kubernetes.io~projected/vol/..data/token")
	for name, damage := range map[string]func() error{
		"sparse": func() error { return os.Truncate(path, 1<<40) },
		"pipe":   func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	} {
		before := asked
		must.Do(t, damage())
		setUp(t, v, pod, dir)
		if text, err := os.ReadFile(path); asked != before+1 || err != nil || string(text) != fmt.Sprintf("token-%d", asked) {
			t.Errorf("%s: asked %d times, %q, %v", name, asked-before, text, err)
		}
	}
}

// Files of a volume that exist already are compared up to the size of the new contents. A sparse file, a FIFO or a link in the place of
// one is replaced, and neither read nor followed.
func TestFilesOfAVolumeAreComparedUpToTheirSize(t *testing.T) {
	dir := t.TempDir()
	s := newStore()
	v := newVolumes(t, local.Config{ConfigMaps: s, Unprivileged: true})
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "A"}}
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}}))
	setUp(t, v, pod, dir)
	path := filepath.Join(dir, "volumes/kubernetes.io~configmap/vol/..data/a.conf")
	same := filepath.Join(t.TempDir(), "same")
	must.Do(t, os.WriteFile(same, []byte("A"), 0o644))
	for name, damage := range map[string]func() error{
		"sparse": func() error { return os.Truncate(path, 1<<40) },
		"pipe":   func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)) },
		"link":   func() error { return errors.Join(os.Remove(path), os.Symlink(same, path)) },
	} {
		must.Do(t, damage())
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		setUp(t, v, pod, dir)
		goruntime.ReadMemStats(&after)
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() != 1 || after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%s: %v, %v, and %d bytes were allocated", name, info, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}
