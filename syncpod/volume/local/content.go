package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume"
)

// file is a file in a volume. It may hold a secret: it is never printed.
type file struct {
	data []byte
	mode int32
	user int
	// got is when a token was received, zero for files that are not renewed by age.
	got time.Time
}

// content is a volume's desired files.
type content struct {
	config *Config
	fixed  *fixed
	pod    *v1.Pod
	// dir is the pod's directory, path the volume's.
	dir, path string
	owners    owners
	// files has the files by their paths in the volume.
	files map[string]file
	// dirs has the files' directories, each with one file.
	dirs map[string]string
	// room is the remaining room for the pod's volume files.
	room *room
	// secret is set if any may hold a secret.
	secret bool
	// next is when the first file may have changed, zero if none changes before the pod
	// changes.
	next time.Time
	// stale has the errors from files that could not be renewed and are
	// unchanged.
	stale []error
}

// add adds all files in a volume.
func (c *content) add(ctx context.Context, vol *v1.Volume) error {
	c.files, c.dirs = map[string]file{}, map[string]string{}
	switch volume.KindOf(vol) {
	case volume.KindConfigMap:
		s := vol.ConfigMap
		return c.configMap(ctx, s.Name, picked{s.Items, modeOr(s.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode), s.Optional})
	case volume.KindSecret:
		s := vol.Secret
		return c.secretOf(ctx, s.SecretName, picked{s.Items, modeOr(s.DefaultMode, v1.SecretVolumeSourceDefaultMode), s.Optional})
	case volume.KindDownwardAPI:
		return c.downwardAPI(vol.DownwardAPI.Items, modeOr(vol.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode))
	case volume.KindProjected:
		return c.projected(ctx, vol)
	}
	return errors.New("it is not made of files")
}

func modeOr(mode *int32, def int32) int32 {
	if mode == nil {
		return def
	}
	return *mode
}

// projected adds the files from all sources. If two files have the same path, the later one
// counts.
func (c *content) projected(ctx context.Context, vol *v1.Volume) error {
	p := vol.Projected
	mode := modeOr(p.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if err := c.source(ctx, vol, i, mode); err != nil {
			return fmt.Errorf("projected.sources[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *content) source(ctx context.Context, vol *v1.Volume, index int, mode int32) error {
	switch s := &vol.Projected.Sources[index]; {
	case s.ConfigMap != nil:
		return c.configMap(ctx, s.ConfigMap.Name, picked{s.ConfigMap.Items, mode, s.ConfigMap.Optional})
	case s.Secret != nil:
		return c.secretOf(ctx, s.Secret.Name, picked{s.Secret.Items, mode, s.Secret.Optional})
	case s.DownwardAPI != nil:
		return c.downwardAPI(s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		return c.token(ctx, s.ServiceAccountToken, mode)
	}
	return c.provided(ctx, vol, index, mode)
}

// picked selects an object's keys that become files.
type picked struct {
	items    []v1.KeyToPath
	mode     int32
	optional *bool
}

func (p *picked) isOptional() bool { return p.optional != nil && *p.optional }

func (c *content) configMap(ctx context.Context, name string, p picked) error {
	if c.config.ConfigMaps == nil {
		return fmt.Errorf("configMap %q: there is no source of ConfigMaps (syncpod.Config.Objects.ConfigMaps)", name)
	}
	object, err := get(ctx, c, objectKey{kindConfigMap, name}, c.config.ConfigMaps.ConfigMap)
	if env.NotFound(err) && p.isOptional() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configMap %q: %w", name, err)
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, object.BinaryData)
	if err := c.pick(data, p); err != nil {
		return fmt.Errorf("configMap %q: %w", name, err)
	}
	return nil
}

func (c *content) secretOf(ctx context.Context, name string, p picked) error {
	c.secret = true
	if c.config.Secrets == nil {
		return fmt.Errorf("secret %q: there is no source of Secrets (syncpod.Config.Objects.Secrets)", name)
	}
	object, err := get(ctx, c, objectKey{kindSecret, name}, c.config.Secrets.Secret)
	if env.NotFound(err) && p.isOptional() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("secret %q: %w", name, err)
	}
	if err := c.pick(object.Data, p); err != nil {
		return fmt.Errorf("secret %q: %w", name, err)
	}
	return nil
}

// pick adds the requested items, or a file for each key.
func (c *content) pick(data map[string][]byte, p picked) error {
	if len(p.items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			if err := c.put(key, file{data: data[key], mode: p.mode, user: keep}); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range p.items {
		item := &p.items[i]
		value, ok := data[item.Key]
		if !ok && p.isOptional() {
			continue
		}
		if !ok {
			return fmt.Errorf("key %q: %w", item.Key, env.ErrNotFound)
		}
		if err := c.put(item.Path, file{data: value, mode: modeOr(item.Mode, p.mode), user: keep}); err != nil {
			return err
		}
	}
	return nil
}

func (c *content) downwardAPI(items []v1.DownwardAPIVolumeFile, mode int32) error {
	in := env.Input{Pod: c.pod, Allocatable: c.config.Allocatable}
	for i := range items {
		item := &items[i]
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = env.FieldValue(in, item.FieldRef)
		} else {
			value, err = env.ResourceValue(in, item.ResourceFieldRef)
		}
		if err != nil {
			return fmt.Errorf("downwardAPI.items[%d]: %w", i, err)
		}
		if err := c.put(item.Path, file{data: []byte(value), mode: modeOr(item.Mode, mode), user: keep}); err != nil {
			return fmt.Errorf("downwardAPI.items[%d]: %w", i, err)
		}
	}
	return nil
}

// put adds one file.
func (c *content) put(name string, f file) error {
	clean, err := cleanPath(name)
	if err != nil {
		return err
	}
	if f.mode < 0 || f.mode > 0o777 {
		return fmt.Errorf("mode %#o of file %q is not between 0 and 0777", f.mode, name)
	}
	dirs := len(c.dirs)
	if err := c.besideOthers(clean); err != nil {
		return err
	}
	if err := c.room.takeDirs(len(c.dirs) - dirs); err != nil {
		return fmt.Errorf("file %q: %w", name, err)
	}
	if old, ok := c.files[clean]; ok {
		c.room.release(old)
	}
	if err := c.room.take(f); err != nil {
		return fmt.Errorf("file %q: %w", name, err)
	}
	c.files[clean] = f
	return nil
}

// besideOthers returns an error if a file has a directory's name that another file needs, or the other way
// round. Otherwise it records the directories that the file needs.
func (c *content) besideOthers(name string) error {
	other, taken := c.dirs[name]
	for dir := path.Dir(name); !taken && dir != "."; dir = path.Dir(dir) {
		other = dir
		_, taken = c.files[dir]
		c.dirs[dir] = name
	}
	if taken {
		return fmt.Errorf("file %q cannot be beside file %q of another source or item: one would be a directory", name, other)
	}
	return nil
}

// cleanPath validates a file's path. Names that begin with .. are reserved for the volume's own
// links.
func cleanPath(name string) (string, error) {
	if err := hostfs.Relative("path of a file", name); err != nil {
		return "", err
	}
	clean := path.Clean(name)
	if clean == "." || strings.HasPrefix(clean, "..") {
		return "", fmt.Errorf("path of a file %q begins with .. or names no file", name)
	}
	return clean, nil
}

// nextAt notes that a file may have changed at that time.
func (c *content) nextAt(at time.Time) { c.next = sooner(c.next, at) }
