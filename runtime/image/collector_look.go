package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// listed are the images that a runtime has, by ID.
type listed map[string]*listedImage

// add adds an image. Runtimes may list an image once for each name, or for each runtime handler.
func (l listed) add(i *runtimeapi.Image) {
	if i.GetId() == "" {
		return // it has no name by which it could be removed
	}
	img := l[i.GetId()]
	if img == nil {
		img = &listedImage{Stored: Stored{ID: i.GetId()}, cri: &runtimeapi.Image{Id: i.GetId()}}
		l[i.GetId()] = img
	}
	img.cri.RepoTags = append(img.cri.RepoTags, i.GetRepoTags()...)
	img.cri.RepoDigests = append(img.cri.RepoDigests, i.GetRepoDigests()...)
	img.Size, img.Pinned = max(img.Size, i.GetSize()), img.Pinned || i.GetPinned()
}

// name computes the names of the images, once all are added: an image may be listed ten thousand times.
func (l listed) name() {
	for _, img := range l {
		img.names = imageNames(img.cri)
		img.Name = slices.Concat(img.cri.RepoTags, img.cri.RepoDigests, []string{img.ID})[0]
	}
}

// listedImage is a listed image, under all its names.
type listedImage struct {
	Stored
	names []string // in normal form
	cri   *runtimeapi.Image
}

func (l listed) stored() []Stored {
	var all []Stored
	for _, img := range l {
		all = append(all, img.Stored)
	}
	return all
}

// look lists the images with their records. If the list has all images, it drops the records for all
// others.
func (c *Collector) look(ctx context.Context, now time.Time) (listed, error) {
	images, all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	images.name()
	used, err := c.usedNames(ctx)
	if err != nil {
		return nil, err
	}
	sandboxes, err := c.sandboxImage(ctx)
	if err != nil {
		return nil, err
	}
	records, ids, there := map[string]record{}, map[string]bool{}, map[string]bool{}
	for id, img := range images {
		r := c.records[id]
		if r.seen.IsZero() {
			r.seen = now
		}
		records[id], ids[id] = r, true
		img.FirstSeen, img.NotBefore = r.seen, r.due
		img.Pinned = img.Pinned || anyOf(img.names, c.keep) || anyOf(img.names, sandboxes)
		img.InUse = anyOf(img.names, used) || c.config.Leases.Held(img.cri)
		if img.InUse {
			c.config.Leases.noteUse(now, img.names...)
		}
		img.LastUsed = c.config.Leases.lastUse(img.names)
		for _, name := range img.names {
			there[name] = true
		}
	}
	if !all {
		maps.Copy(c.records, records)
		return images, nil
	}
	c.records = records
	c.config.Leases.forgetUses(there, now)
	c.config.Leases.listed(ids, now)
	return images, nil
}

func anyOf(names []string, set map[string]bool) bool {
	return slices.ContainsFunc(names, func(name string) bool { return set[name] })
}

// list returns all images. If they do not fit in a message, it returns those that this agent knows, and false.
func (c *Collector) list(ctx context.Context) (images listed, all bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.config.Runtime.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	err = cri.Classify(err)
	partial := errors.Is(err, cri.ErrExhausted)
	if partial != c.partial {
		c.partial = partial
		c.config.Log.Info("whether all images fit in a list", "fit", !partial, "err", err)
	}
	images = listed{}
	switch {
	case partial:
		return images, false, c.inspectKnown(ctx, images)
	case err != nil:
		return nil, false, fmt.Errorf("image: list images: %w", err)
	}
	for _, i := range resp.GetImages() {
		images.add(i)
	}
	return images, true, nil
}

// inspectKnown adds the images that this agent knows, one call for each. An image whose own texts exceed a message is
// left out.
func (c *Collector) inspectKnown(ctx context.Context, images listed) error {
	inspected := map[string]bool{}
	for _, name := range c.config.Leases.known() {
		if inspected[name] {
			continue
		}
		resp, err := c.config.Runtime.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		switch err = cri.Classify(err); {
		case err == nil:
		case errors.Is(err, cri.ErrUnavailable), ctx.Err() != nil:
			return fmt.Errorf("image: inspect %s: %w", name, err)
		}
		images.add(resp.GetImage())
		for _, name := range imageNames(resp.GetImage()) {
			inspected[name] = true
		}
	}
	return nil
}

// usedNames returns all image names that containers use or mount. The containers may belong to any
// agent, and need not run.
func (c *Collector) usedNames(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("image: list containers: %w", cri.Classify(err))
	}
	used := map[string]bool{}
	for _, container := range resp.GetContainers() {
		for _, name := range []string{container.GetImageId(), container.GetImageRef(), container.GetImage().GetImage()} {
			used[completed(name)] = true
		}
		for _, name := range strings.Fields(container.GetAnnotations()[runtime.AnnotationImageVolumes]) {
			used[completed(name)] = true
		}
	}
	return used, nil
}

// sandboxImage returns the runtime's sandbox image, none if the runtime does not report it. A
// runtime reports it in the verbose configuration in its status, where kubeadm also reads it.
func (c *Collector) sandboxImage(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return nil, fmt.Errorf("image: which image sandboxes are made of: %w", cri.Classify(err))
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if err := json.Unmarshal([]byte(resp.GetInfo()["config"]), &config); err != nil || config.SandboxImage == "" {
		return nil, nil // this runtime's configuration has another form
	}
	return map[string]bool{completed(config.SandboxImage): true}, nil
}
