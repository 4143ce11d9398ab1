package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container/env"
	volumedir "github.com/podsync/podsync/syncpod/volume"
)

// Config configures a [Volumes]. The zero Config is for volumes that need nothing from outside the
// pod.
type Config struct {
	// ConfigMaps, Secrets and Tokens provide volume contents. A volume that needs a nil one is an
	// error.
	ConfigMaps env.ConfigMaps
	Secrets    env.Secrets
	Tokens     volumedir.Tokens
	// Projections provides the other sources for projected volumes. A source without it is an
	// error.
	Projections volumedir.Projections
	// Allocatable are the node's resources for pods, the downward API's value for a limit that is
	// not set.
	Allocatable v1.ResourceList
	// RecursiveReadOnly are the runtime handlers that support recursive read-only mounts
	// (KEP-3857); the default one is "".
	RecursiveReadOnly []string
	// Unprivileged makes the agent mount nothing. Secrets are then written to the disk, a subPath is
	// checked but not pinned, and an emptyDir in memory is an error. If the agent is not root either,
	// it gives files to an fsGroup only if it belongs to that group; otherwise it keeps them.
	Unprivileged bool
	// Observer is called for each volume that SetUp has set up or failed to, with the duration. It
	// must return soon. Default: none.
	Observer func(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error)
	// Plugin provides all other volume kinds. Default: a pod with such a volume fails.
	Plugin volumedir.Plugin
}

// Volumes makes volumes. Its methods may be called concurrently for different
// pods, and Mounts for different containers.
type Volumes struct {
	config Config
	// fixed is kept in memory until TearDown.
	fixed fixed
}

// New returns a Volumes. It touches no file.
func New(c Config) (*Volumes, error) { return &Volumes{config: c}, nil }

// RecursiveReadOnly reports whether Config lists a runtime handler as supporting recursive read-only mounts.
func (v *Volumes) RecursiveReadOnly(handler string) bool {
	return slices.Contains(v.config.RecursiveReadOnly, handler)
}

// SetUp creates or updates the volumes that the pod's containers mount, below the pod's directory dir. It tries all
// volumes; the error joins an *volume.Error for each that failed. The update of an existing volume delays a restart by
// lastknown.Patience at most. If it fails, Mounts mounts the volume as it is.
func (v *Volumes) SetUp(ctx context.Context, pod *v1.Pod, dir string) error {
	if pod == nil {
		return errors.New("volume/local: the pod is nil")
	}
	left, began, others := newRoom(), time.Now(), countFileVolumes(pod)
	short, cancel := context.WithTimeout(ctx, lastknown.Patience)
	defer cancel()
	wait := v.setUpByPlugin(ctx, short, pod, dir)
	return eachMounted(pod, func(vol *v1.Volume) error {
		began, ctx := began, ctx
		if !v.provides(vol) {
			began = time.Now()
		}
		if volumedir.KindOf(vol).OfFiles() {
			others--
			if v.isSetUp(pod, vol, dir) {
				share, cancel := withShare(short, others)
				defer cancel()
				ctx = share
			}
		}
		err := v.setUp(ctx, pod, vol, dir, left, wait)
		if v.config.Observer != nil {
			v.config.Observer(pod, vol, time.Since(began), err)
		}
		return err
	})
}

// eachMounted calls do with each volume that containers in the pod mount, and joins
// the errors.
func eachMounted(pod *v1.Pod, do func(*v1.Volume) error) error {
	used := mounted(pod)
	var errs []error
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if !used[vol.Name] {
			continue
		}
		err := do(vol)
		if failed, ok := err.(*volumedir.Error); ok { // a plugin names the PersistentVolume
			errs = append(errs, failed)
		} else if err != nil {
			errs = append(errs, &volumedir.Error{Volume: vol.Name, Kind: kind(vol), Pod: pod.Namespace + "/" + pod.Name, Err: err})
		}
	}
	return errors.Join(errs...)
}

// mounted returns the names for the volumes that containers in the pod mount.
func mounted(pod *v1.Pod) map[string]bool {
	used := map[string]bool{}
	note := func(c *v1.Container) {
		for i := range c.VolumeMounts {
			used[c.VolumeMounts[i].Name] = true
		}
		for i := range c.VolumeDevices {
			used[c.VolumeDevices[i].Name] = true
		}
	}
	for i := range pod.Spec.InitContainers {
		note(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		note(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		note((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return used
}

// setUp sets up one volume. byPlugin waits for a volume that the plugin mounts.
func (v *Volumes) setUp(ctx context.Context, pod *v1.Pod, vol *v1.Volume, dir string, left *room, byPlugin func(*v1.Volume) error) error {
	kind := volumedir.KindOf(vol)
	switch {
	case v.provides(vol):
		return byPlugin(vol)
	case kind == volumedir.KindHostPath:
		return checkHostPath(vol.HostPath)
	case kind == volumedir.KindImage:
		return nil // the runtime mounts it
	}
	path, err := pathOf(vol, dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if kind == volumedir.KindEmptyDir {
		return v.emptyDir(vol.EmptyDir, path, pod)
	}
	_, err = v.update(ctx, pod, vol, dir, left)
	return err
}

// pathOf returns the path on the node for a volume that Volumes creates.
func pathOf(vol *v1.Volume, dir string) (string, error) {
	kind := volumedir.KindOf(vol)
	switch {
	case kind == volumedir.KindHostPath:
		return filepath.FromSlash(vol.HostPath.Path), nil
	case kind.Directory() == "":
		return "", errNoProvider
	}
	if err := hostfs.Element("volume name", vol.Name); err != nil {
		return "", err
	}
	return filepath.Join(dir, "volumes", kind.Directory(), vol.Name), nil
}

// kind returns the API field's name that determines a volume's kind.
func kind(vol *v1.Volume) string {
	source := reflect.ValueOf(vol.VolumeSource)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "of no kind"
}
