package image

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

var (
	errNoLook = errors.New("whether it is in use is unknown")
	errInUse  = errors.New("in use")
)

// removeAll carries out the plan.
func (c *Collector) removeAll(ctx context.Context, images listed, g GCPlan) error {
	var errs []error
	var freed uint64
	for _, r := range g.Images {
		removed, err := c.remove(ctx, images[r.ID].cri)
		if err != nil {
			errs = append(errs, fmt.Errorf("image: remove %s: %w", r.Name, err))
		}
		if ctx.Err() != nil || errors.Is(err, errNoLook) || errors.Is(err, cri.ErrUnavailable) {
			return errors.Join(errs...) // the image is not the cause
		}
		switch {
		case removed:
			freed += r.Size
			c.config.Log.Info("image removed", "image", r.Name, "id", r.ID, "bytes", r.Size, "reason", r.Reason.String())
			delete(c.records, r.ID)
		case err != nil:
			c.holdUp(r.ID)
		}
	}
	if wanted := g.Free; freed < wanted && (g.Shortfall > 0 || len(errs) > 0) {
		errs = append(errs, fmt.Errorf("image: %w: %d bytes should be freed, %d were", ErrDiskFull, wanted, freed))
	}
	return errors.Join(errs...)
}

// holdUp delays an image's next removal, twice as long as the last time.
func (c *Collector) holdUp(id string) {
	r := c.records[id]
	r.pause = min(max(2*r.pause, firstPause), maxPause)
	r.due = time.Now().Add(r.pause)
	c.records[id] = r
}

// remove removes an image unless it is in use, and prevents its use until the removal is complete
// (kubernetes #123631).
func (c *Collector) remove(ctx context.Context, img *runtimeapi.Image) (removed bool, err error) {
	removed, err = c.config.Leases.Remove(ctx, img, func(ctx context.Context) error {
		used, err := c.usedNames(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errNoLook, err)
		}
		if anyOf(imageNames(img), used) {
			return errInUse
		}
		return c.askToRemove(ctx, img)
	})
	if errors.Is(err, errInUse) {
		return false, nil
	}
	return removed, err
}

func (c *Collector) askToRemove(ctx context.Context, img *runtimeapi.Image) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.config.Runtime.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.GetId()}})
	return cri.IgnoreNotFound(err)
}
