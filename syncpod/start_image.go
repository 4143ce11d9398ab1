package syncpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	images "github.com/podsync/podsync/runtime/image"
)

// imageResult holds the images of a container: its own, and those that it mounts, by volume name
// (KEP-4639).
type imageResult struct {
	image   *images.Image
	volumes map[string]*images.Image
	err     error
}

// release releases the images.
func (r imageResult) release() {
	if r.image != nil {
		r.image.Release()
	}
	for _, img := range r.volumes {
		img.Release()
	}
}

// pulling gets the images of a container that starts.
type pulling struct{ *start }

// ensureImages ensures the container's image, and then the images that it mounts.
func (st pulling) ensureImages(ctx context.Context) {
	var got imageResult
	if got.image, got.err = st.askForImage(ctx, st.spec.Image, st.spec.ImagePullPolicy); got.err == nil {
		got.volumes, got.err = st.askForVolumes(ctx)
	}
	if got.err != nil {
		got.release()
		got = imageResult{err: got.err}
	}
	st.image <- got
}

// askForVolumes requests the images that the container mounts, each once.
func (st pulling) askForVolumes(ctx context.Context) (byName map[string]*images.Image, err error) {
	for i := range st.pod.Spec.Volumes {
		vol := &st.pod.Spec.Volumes[i]
		if vol.Image == nil || !st.mounts(vol.Name) {
			continue
		}
		img, err := st.askForImage(ctx, vol.Image.Reference, vol.Image.PullPolicy)
		if err != nil {
			return byName, err
		}
		if byName == nil {
			byName = map[string]*images.Image{}
		}
		byName[vol.Name] = img
	}
	return byName, nil
}

func (st pulling) mounts(volume string) bool {
	return slices.ContainsFunc(st.spec.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume })
}

func (st pulling) askForImage(ctx context.Context, name string, policy v1.PullPolicy) (*images.Image, error) {
	began := time.Now()
	img, err := st.config.Parts.Images.EnsureImageExists(ctx, images.Request{
		Image: name, Policy: policy,
		PodUID: st.pod.UID, PodAnnotations: st.pod.Annotations, Used: st.used(name),
		FetchSecrets: func(ctx context.Context) []v1.Secret { return st.sandbox.secrets.of(ctx, &st.observedPod, name) },
		Sandbox:      st.sandbox.config, RuntimeHandler: st.sandbox.handler,
		OnPull: func() { st.event(v1.EventTypeNormal, EventPulling, "Pulling image %q", name) },
	})
	if err != nil && !inBackOff(err) || err == nil && img.Pulled {
		st.config.Observer.ImagePulled(st.pod, st.Container, name, time.Since(began), err)
	}
	return img, err
}

// used returns the image that the last instance of the container has run with, "" if that had another name.
func (st pulling) used(name string) string {
	last := st.status.Latest(st.spec.Name)
	if last == nil || last.StartedAt.IsZero() || name != st.spec.Image || last.SpecHash != runtime.HashContainer(st.spec) {
		return ""
	}
	return last.ImageID
}

// inBackOff reports whether a pull was not tried.
func inBackOff(err error) bool {
	e, ok := errors.AsType[*images.Error](err)
	return ok && e.Reason == images.ErrImagePullBackOff
}

func (st pulling) waitForImages(ctx context.Context) (imageResult, *StepError) {
	var got imageResult
	select {
	case got = <-st.image:
	case <-ctx.Done():
		return got, &StepError{Step: stepImage, Reason: Reason(images.ErrImagePull), Err: ctx.Err()}
	}
	if got.err != nil {
		return got, st.imageError(ctx, got.err)
	}
	st.reportPulled(st.spec.Image, got.image)
	for i := range st.pod.Spec.Volumes {
		vol := &st.pod.Spec.Volumes[i]
		if img := got.volumes[vol.Name]; img != nil {
			st.reportPulled(vol.Image.Reference, img)
		}
	}
	return got, nil
}

func (st pulling) reportPulled(name string, img *images.Image) {
	text := fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name)
	if img.Pulled {
		text = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
			name, img.PullRan.Truncate(time.Millisecond), img.PullTook.Truncate(time.Millisecond), img.Size)
	}
	st.event(v1.EventTypeNormal, EventPulled, "%s", text)
}

func (st pulling) imageError(ctx context.Context, err error) *StepError {
	failed := &StepError{Step: stepImage, Reason: Reason(images.ErrImagePull), Err: err}
	if e, ok := errors.AsType[*images.Error](err); ok {
		failed.Reason, failed.NotBefore = Reason(e.Reason), e.RetryAt
	}
	if ctx.Err() != nil {
		return failed
	}
	kind, reason := v1.EventTypeWarning, EventFailed
	switch images.Reason(failed.Reason) {
	case images.ErrImagePullBackOff:
		failed.Waits = true
		kind, reason = v1.EventTypeNormal, EventBackOff
	case images.ErrImageNeverPull:
		reason = EventErrImageNeverPull
	case images.ErrImageInspect, images.ErrInvalidImageName:
		reason = EventInspectFailed
	}
	st.event(kind, reason, "%s", imageEvent(err))
	return failed
}

// imageEvent returns the text of the event about an image that cannot be used, as in a kubelet. It differs from the text
// in the status after a failed pull: the event of a back-off does not repeat the cause, so that repeated events are
// counted and not recorded as new ones.
func imageEvent(err error) string {
	e, ok := errors.AsType[*images.Error](err)
	if !ok {
		return err.Error()
	}
	switch e.Reason {
	case images.ErrImagePullBackOff:
		return fmt.Sprintf("Back-off pulling image %q", e.Image)
	case images.ErrImagePull, images.ErrRegistryUnavailable, images.ErrSignatureValidation:
		return fmt.Sprintf("Failed to pull image %q: %v", e.Image, e.Err)
	}
	return e.Error()
}

// releaseAll releases images from which no container was created.
func releaseAll(starts []*start) {
	for _, st := range starts {
		select {
		case got := <-st.image:
			got.release()
		default:
		}
	}
}
