package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	volumedir "github.com/podsync/podsync/syncpod/volume"
)

// Mounts returns a container's mounts, in its spec's order, for the volumes
// that SetUp has made below the pod's directory dir.
func (v *Volumes) Mounts(_ context.Context, req container.MountRequest, dir string) (container.Mounts, error) {
	if req.Pod == nil || req.Container == nil {
		return container.Mounts{}, errors.New("volume/local: MountRequest.Pod and Container are required")
	}
	var mounts container.Mounts
	for i := range req.Container.VolumeDevices {
		device, err := v.device(req, &req.Container.VolumeDevices[i], dir)
		if err != nil {
			return container.Mounts{}, fmt.Errorf("volumeDevices[%d] (volume %q): %w", i, req.Container.VolumeDevices[i].Name, err)
		}
		mounts.Devices = append(mounts.Devices, device)
	}
	var kept pins
	for i := range req.Container.VolumeMounts {
		m, err := v.mount(req, i, dir, &kept)
		if err != nil {
			err = fmt.Errorf("volumeMounts[%d] (volume %q): %w", i, req.Container.VolumeMounts[i].Name, err)
			return container.Mounts{}, errors.Join(err, kept.release())
		}
		mounts.Mounts = append(mounts.Mounts, m)
	}
	if len(kept) > 0 {
		mounts.Release = kept.release
	}
	return mounts, nil
}

func (v *Volumes) mount(req container.MountRequest, index int, dir string, kept *pins) (*runtimeapi.Mount, error) {
	ask := &req.Container.VolumeMounts[index]
	vol := find(req.Pod, ask.Name)
	if vol == nil {
		return nil, errNoVolume
	}
	if volumedir.KindOf(vol) == volumedir.KindImage {
		return v.imageMount(req, ask)
	}
	at, err := v.locate(req.Pod, vol, dir)
	if err == nil && at.Device {
		err = errors.New("it has volumeMode Block, but it is mounted as a directory")
	}
	host := at.Path
	if err == nil {
		host, err = v.hostPathOf(req, index, dir, at.Path, kept)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind(vol), err)
	}
	recursive, err := v.recursiveReadOnly(ask, req.RuntimeHandler)
	if err != nil {
		return nil, err
	}
	propagation, err := propagationOf(ask)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.Mount{
		ContainerPath:     path.Join("/", ask.MountPath),
		HostPath:          host,
		Readonly:          ask.ReadOnly || at.ReadOnly,
		RecursiveReadOnly: recursive,
		SelinuxRelabel:    at.SELinuxRelabel,
		Propagation:       propagation,
	}, nil
}

// imageMount returns the read-only mount for an image, or a directory in it (KEP-4639). The runtime mounts it.
func (v *Volumes) imageMount(req container.MountRequest, ask *v1.VolumeMount) (*runtimeapi.Mount, error) {
	image := req.Images[ask.Name]
	if image == "" {
		return nil, errors.New("image: MountRequest.Images does not have it")
	}
	below, err := subPathOf(ask, req.Env)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	recursive, err := v.recursiveReadOnly(ask, req.RuntimeHandler)
	if err != nil {
		return nil, err
	}
	propagation, err := propagationOf(ask)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.Mount{
		ContainerPath:     path.Join("/", ask.MountPath),
		Image:             &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: find(req.Pod, ask.Name).Image.Reference},
		ImageSubPath:      below,
		Readonly:          true,
		RecursiveReadOnly: recursive,
		Propagation:       propagation,
	}, nil
}

var errNoVolume = errors.New("the pod has no such volume")

func find(pod *v1.Pod, name string) *v1.Volume {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return &pod.Spec.Volumes[i]
		}
	}
	return nil
}

// hostPathOf returns the path to mount: the volume, or a path in it.
func (v *Volumes) hostPathOf(req container.MountRequest, index int, dir, volume string, kept *pins) (string, error) {
	ask := &req.Container.VolumeMounts[index]
	vol := find(req.Pod, ask.Name)
	below, err := subPathOf(ask, req.Env)
	if err != nil || below == "" {
		return volume, err
	}
	path, err := v.subPath(volume, below, pinPath{dir, ask.Name, req.Container.Name, index, volumedir.KindOf(vol).OfFiles()}, kept)
	switch {
	case err == nil:
		return path, nil
	case ask.SubPathExpr != "":
		return "", fmt.Errorf("subPathExpr %q: %w", ask.SubPathExpr, withoutPath(err))
	}
	return "", fmt.Errorf("subPath %q: %w", below, err)
}

// withoutPath returns only a failure's reason: a path from a subPathExpr may contain a Secret.
func withoutPath(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// subPathOf returns the subPath, or the subPathExpr with its variables. "" is none.
func subPathOf(ask *v1.VolumeMount, vars []env.Var) (string, error) {
	switch {
	case ask.SubPathExpr != "":
		return expandSubPath(ask, vars)
	case ask.SubPath != "":
		return ask.SubPath, hostfs.Relative("subPath", ask.SubPath)
	}
	return "", nil
}

func expandSubPath(ask *v1.VolumeMount, vars []env.Var) (string, error) {
	lookup := env.Lookup(vars)
	var missing []string
	expanded, ok := env.Expand(ask.SubPathExpr, hostfs.MaxPath, func(name string) (string, bool) {
		value, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return value, ok
	})
	if !ok {
		return "", fmt.Errorf("subPathExpr %s: with its variables it has more than %d bytes, the most of a path", hostfs.Quote(ask.SubPathExpr), hostfs.MaxPath)
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("subPathExpr %q: there is no variable %s", ask.SubPathExpr, strings.Join(missing, ", "))
	}
	if expanded == "" { // the volume itself, as for an empty subPath
		return "", nil
	}
	if hostfs.Relative("", expanded) != nil {
		return "", fmt.Errorf("subPathExpr %q: with its variables it is absolute, has .. as an element, or a backslash or NUL in it", ask.SubPathExpr)
	}
	return expanded, nil
}

// recursiveReadOnly reports whether mounts below the volume must be read-only too (KEP-3857).
func (v *Volumes) recursiveReadOnly(ask *v1.VolumeMount, handler string) (bool, error) {
	if ask.RecursiveReadOnly == nil || *ask.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	mode := *ask.RecursiveReadOnly
	private := ask.MountPropagation == nil || *ask.MountPropagation == v1.MountPropagationNone
	switch {
	case mode != v1.RecursiveReadOnlyIfPossible && mode != v1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("recursiveReadOnly %q is not known", mode)
	case !ask.ReadOnly:
		return false, fmt.Errorf("recursiveReadOnly %s needs readOnly", mode)
	case mode == v1.RecursiveReadOnlyIfPossible:
		return v.RecursiveReadOnly(handler) && private, nil
	case !private:
		return false, fmt.Errorf("recursiveReadOnly %s does not go with mountPropagation %s", mode, *ask.MountPropagation)
	case !v.RecursiveReadOnly(handler):
		return false, fmt.Errorf("recursiveReadOnly %s is not supported by the runtime", mode)
	}
	return true, nil
}

func propagationOf(ask *v1.VolumeMount) (runtimeapi.MountPropagation, error) {
	if ask.MountPropagation == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *ask.MountPropagation {
	case v1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	}
	return 0, fmt.Errorf("mountPropagation %q is not known", *ask.MountPropagation)
}
