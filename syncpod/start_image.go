package syncpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/image"
)

// imageResult is what has become of an image.
type imageResult struct {
	image *image.Image
	err   error
}

func (st *start) ensureImage(ctx context.Context) {
	img, err := st.askForImage(ctx)
	st.image <- imageResult{img, err}
}

func (st *start) askForImage(ctx context.Context) (*image.Image, error) {
	return st.config.Deps.Images.EnsureImage(ctx, image.Request{
		Image: st.spec.Image, Policy: st.spec.ImagePullPolicy,
		PodUID: st.pod.UID, PodAnnotations: st.pod.Annotations, Secrets: st.sandbox.secrets,
		Sandbox: st.sandbox.config, RuntimeHandler: st.sandbox.handler,
		OnPull: func() { st.event(v1.EventTypeNormal, eventPulling, "Pulling image %q", st.spec.Image) },
	})
}

func (st *start) waitForImage(ctx context.Context) (*image.Image, *StepError) {
	var got imageResult
	select {
	case got = <-st.image:
	case <-ctx.Done():
		return nil, &StepError{Step: StepImage, Reason: Reason(image.ErrImagePull), Err: ctx.Err()}
	}
	if got.err != nil {
		return nil, st.imageError(ctx, got.err)
	}
	text := fmt.Sprintf("Container image %q already present on machine", st.spec.Image)
	if got.image.Pulled {
		text = fmt.Sprintf("Successfully pulled image %q in %v. Image size: %d bytes.", st.spec.Image, got.image.PullTook.Round(time.Millisecond), got.image.Size)
	}
	st.event(v1.EventTypeNormal, eventPulled, "%s", text)
	return got.image, nil
}

func (st *start) imageError(ctx context.Context, err error) *StepError {
	failed := &StepError{Step: StepImage, Reason: Reason(image.ErrImagePull), Err: err}
	if e, ok := errors.AsType[*image.Error](err); ok {
		failed.Reason, failed.NotBefore = Reason(e.Reason), e.RetryAt
	}
	if ctx.Err() != nil {
		return failed
	}
	kind, reason := v1.EventTypeWarning, eventFailed
	switch image.Reason(failed.Reason) {
	case image.ErrImagePullBackOff:
		failed.Waits = true
		kind, reason = v1.EventTypeNormal, eventBackOff
	case image.ErrImageNeverPull:
		reason = eventNeverPull
	case image.ErrImageInspect, image.ErrInvalidImageName:
		reason = eventInspectFailed
	}
	st.event(kind, reason, "%s", err.Error())
	return failed
}

// releaseAll gives back images that no container was created from.
func releaseAll(starts []*start) {
	for _, st := range starts {
		select {
		case got := <-st.image:
			if got.image != nil {
				got.image.Release()
			}
		default:
		}
	}
}
