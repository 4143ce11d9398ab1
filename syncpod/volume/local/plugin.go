package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/volume"
)

// errNoProvider means that a volume has an unknown kind.
var errNoProvider = errors.New("there is no provider of volumes of this kind")

// provides reports whether the plugin provides a volume.
func (v *Volumes) provides(vol *v1.Volume) bool {
	return v.config.Plugin != nil && volume.KindOf(vol) == volume.KindOther && v.config.Plugin.Provides(vol)
}

// setUpByPlugin makes the plugin mount all its volumes concurrently, because each may wait for a driver. Those that are
// mounted already have short's time. The returned function waits for one volume's error.
func (v *Volumes) setUpByPlugin(ctx, short context.Context, pod *v1.Pod, dir string) (wait func(*v1.Volume) error) {
	var running sync.WaitGroup
	used := mounted(pod)
	failed := make([]error, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		if vol := &pod.Spec.Volumes[i]; used[vol.Name] && v.provides(vol) {
			ctx := ctx
			if v.isSetUp(pod, vol, dir) {
				ctx = short
			}
			running.Go(func() { failed[i] = v.config.Plugin.SetUp(ctx, pod, vol, dir) })
		}
	}
	return func(vol *v1.Volume) error {
		running.Wait()
		return failed[slices.IndexFunc(pod.Spec.Volumes, func(other v1.Volume) bool { return other.Name == vol.Name })]
	}
}

// isSetUp reports whether containers may use a volume as it is.
func (v *Volumes) isSetUp(pod *v1.Pod, vol *v1.Volume, dir string) bool {
	_, err := v.locate(pod, vol, dir)
	return err == nil
}

// errNotSetUp means that a volume has not been set up, or not completely.
var errNotSetUp = errors.New("it has not been set up")

// checkSetUp returns an error if an agent's volume is incomplete: its files are not published, or were in memory and are lost,
// or the node's path has another type.
func checkSetUp(vol *v1.Volume, place string) error {
	switch kind := volume.KindOf(vol); {
	case kind == volume.KindHostPath:
		return checkHostPath(vol.HostPath)
	case kind.OfFiles():
		if _, err := os.Readlink(filepath.Join(place, dataLink)); err != nil {
			return fmt.Errorf("%w: %w", errNotSetUp, err)
		}
	case kind == volume.KindEmptyDir && vol.EmptyDir.Medium != v1.StorageMediumDefault:
		if there, err := mounts.At(place); err != nil || !there {
			return errors.Join(errNotSetUp, err)
		}
	default:
		if _, err := os.Lstat(place); err != nil {
			return fmt.Errorf("%w: %w", errNotSetUp, err)
		}
	}
	return nil
}

// locate returns where a volume is on the node. It returns an error if the volume is not set up.
func (v *Volumes) locate(pod *v1.Pod, vol *v1.Volume, dir string) (volume.Location, error) {
	if v.provides(vol) {
		at, err := v.config.Plugin.Locate(pod, vol, dir)
		if err == nil && !filepath.IsAbs(at.Path) {
			err = fmt.Errorf("its plugin returns %q, which is not an absolute path", at.Path)
		}
		return at, err
	}
	place, err := pathOf(vol, dir)
	if err != nil {
		return volume.Location{}, err
	}
	if err := checkSetUp(vol, place); err != nil {
		return volume.Location{}, err
	}
	kind := volume.KindOf(vol) // a container must not change files that other components write
	return volume.Location{Path: place, ReadOnly: kind.OfFiles(), SELinuxRelabel: kind != volume.KindHostPath}, nil
}

// device returns a container's block device. Only a volume.Plugin provides them.
func (v *Volumes) device(req container.MountRequest, ask *v1.VolumeDevice, dir string) (*runtimeapi.Device, error) {
	vol := find(req.Pod, ask.Name)
	switch {
	case vol == nil:
		return nil, errNoVolume
	case !v.provides(vol):
		return nil, fmt.Errorf("%s: it is no block device", kind(vol))
	}
	at, err := v.locate(req.Pod, vol, dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", kind(vol), err)
	case !at.Device:
		return nil, fmt.Errorf("%s: it has volumeMode Filesystem, but it is used as a block device", kind(vol))
	}
	permissions := "mrw"
	if at.ReadOnly {
		permissions = "r"
	}
	return &runtimeapi.Device{HostPath: at.Path, ContainerPath: path.Join("/", ask.DevicePath), Permissions: permissions}, nil
}

// keepForeign removes the directories for volumes that Volumes does not create, but only if they are empty, because
// the agent has created no files in them. It returns an error if one remains. A file may be data in a volume whose
// mount is not visible here; then nothing below the pod's directory may be deleted (kubernetes #72257,
// #74650).
func keepForeign(dir string) error {
	own := volume.Directories()
	var errs []error
	for _, parent := range []string{"volumes", "volumeDevices"} {
		plugins, err := os.ReadDir(filepath.Join(dir, parent))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, plugin := range plugins {
			if plugin.IsDir() && !slices.Contains(own, plugin.Name()) {
				errs = append(errs, removeEmpty(filepath.Join(dir, parent, plugin.Name()), 3))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("a volume that the agent did not make is kept, with the directory of its pod: %w", err)
	}
	return nil
}

// removeEmpty removes a directory and those below it that contain no file, using only rmdir(2). It
// visits the three levels <plugin>/<volume>/mount, and enters no mount.
func removeEmpty(plugin string, levels int) error {
	if at, err := mounts.At(plugin); at || err != nil {
		return err
	}
	entries, err := someOf(plugin)
	errs := []error{err}
	for _, entry := range entries {
		if entry.IsDir() && levels > 1 {
			errs = append(errs, removeEmpty(filepath.Join(plugin, entry.Name()), levels-1))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.Remove(plugin)
}

// maxForeign limits the names read from such a directory. A full volume may have more.
const maxForeign = 1024

func someOf(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxForeign)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
