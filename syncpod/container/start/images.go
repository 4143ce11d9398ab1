package start

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/image"
)

// pulled are a container's images: its own, and those that it mounts, by volume name (KEP-4639).
type pulled struct {
	image   *image.Image
	volumes map[string]*image.Image
	err     error
}

// release releases the images.
func (p pulled) release() {
	if p.image != nil {
		p.image.Release()
	}
	for _, img := range p.volumes {
		img.Release()
	}
}

// releaseUnused releases images from which no container was created.
func (t *target) releaseUnused() {
	select {
	case got := <-t.pulled:
		got.release()
	default:
	}
}

// pull ensures the container's image, and then the images that it mounts, each once.
func (s *Starter) pull(ctx context.Context, t *target) (got pulled) {
	if got.image, got.err = s.ensureImage(ctx, t, t.spec.Image, t.spec.ImagePullPolicy); got.err != nil {
		return got
	}
	for i := range t.pod.Spec.Spec.Volumes {
		vol := &t.pod.Spec.Spec.Volumes[i]
		if vol.Image == nil || !slices.ContainsFunc(t.spec.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == vol.Name }) {
			continue
		}
		img, err := s.ensureImage(ctx, t, vol.Image.Reference, vol.Image.PullPolicy)
		if err != nil {
			got.release()
			return pulled{err: err}
		}
		if got.volumes == nil {
			got.volumes = map[string]*image.Image{}
		}
		got.volumes[vol.Name] = img
	}
	return got
}

func (s *Starter) ensureImage(ctx context.Context, t *target, name string, policy v1.PullPolicy) (*image.Image, error) {
	began, pod := time.Now(), t.pod.Spec
	req := image.Request{
		Image: name, Policy: policy,
		PodUID: pod.UID, PodAnnotations: pod.Annotations, Used: t.used(name),
		Sandbox: t.pod.Sandbox.Config, RuntimeHandler: t.pod.Sandbox.RuntimeHandler,
		OnPull: func() {
			s.event(t.pod, t.step.Container, v1.EventTypeNormal, EventPulling, "Pulling image %q", name)
		},
	}
	if t.pod.PullSecrets != nil {
		req.FetchSecrets = func(ctx context.Context) ([]v1.Secret, error) { return t.pod.PullSecrets(ctx, name) }
	}
	img, err := s.config.Images.EnsureImageExists(ctx, req)
	if err != nil && !inBackOff(err) || err == nil && img.Pulled {
		s.config.Observer.ImagePulled(pod, t.step.Container, name, time.Since(began), err)
	}
	return img, err
}

// used returns the images that the container's last instance has run with, and had mounted. Its own does not count if that had
// another name.
func (t *target) used(name string) []string {
	last := t.pod.Status.Latest(t.spec.Name)
	if last == nil || last.StartedAt.IsZero() {
		return nil
	}
	used := strings.Fields(last.ImageVolumes)
	if name == t.spec.Image && last.SpecHash == runtime.HashContainer(t.spec) {
		used = append(used, last.ImageID)
	}
	return used
}

// inBackOff reports whether a pull was not tried.
func inBackOff(err error) bool {
	e, ok := errors.AsType[*image.Error](err)
	return ok && e.Reason == image.ErrImagePullBackOff
}

// awaitImages waits for a container's images, and reports them.
func (s *Starter) awaitImages(ctx context.Context, t *target) (got pulled, failed *Error) {
	select {
	case got = <-t.pulled:
	case <-ctx.Done():
		return got, &Error{Step: StepImage, Reason: Reason(image.ErrImagePull), Err: ctx.Err()}
	}
	if got.err != nil {
		return got, s.imageError(ctx, t, got.err)
	}
	s.reportPulled(t, t.spec.Image, got.image)
	for i := range t.pod.Spec.Spec.Volumes {
		vol := &t.pod.Spec.Spec.Volumes[i]
		if img := got.volumes[vol.Name]; img != nil {
			s.reportPulled(t, vol.Image.Reference, img)
		}
	}
	return got, nil
}

func (s *Starter) reportPulled(t *target, name string, img *image.Image) {
	text := fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", name)
	if img.Pulled {
		text = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
			name, img.PullRan.Truncate(time.Millisecond), img.PullTook.Truncate(time.Millisecond), img.Size)
	}
	s.event(t.pod, t.step.Container, v1.EventTypeNormal, EventPulled, "%s", text)
}

func (s *Starter) imageError(ctx context.Context, t *target, err error) *Error {
	failed := &Error{Step: StepImage, Reason: Reason(image.ErrImagePull), Err: err}
	if e, ok := errors.AsType[*image.Error](err); ok {
		failed.Reason, failed.RetryAt = Reason(e.Reason), e.RetryAt
	}
	if ctx.Err() != nil {
		return failed
	}
	kind, reason := v1.EventTypeWarning, EventFailed
	switch image.Reason(failed.Reason) {
	case image.ErrImagePullBackOff:
		failed.Waits = true
		kind, reason = v1.EventTypeNormal, EventBackOff
	case image.ErrImageNeverPull:
		reason = EventErrImageNeverPull
	case image.ErrImageInspect, image.ErrInvalidImageName:
		reason = EventInspectFailed
	}
	s.event(t.pod, t.step.Container, kind, reason, "%s", imageEvent(err))
	return failed
}

// imageEvent returns the text of the event about an image that cannot be used, as in a kubelet. It differs from the text
// in the status after a failed pull: a back-off's event does not repeat the cause, so that repeated events are counted
// and not recorded as new ones.
func imageEvent(err error) string {
	e, ok := errors.AsType[*image.Error](err)
	if !ok {
		return err.Error()
	}
	switch e.Reason {
	case image.ErrImagePullBackOff:
		return fmt.Sprintf("Back-off pulling image %q", e.Image)
	case image.ErrImagePull, image.ErrRegistryUnavailable, image.ErrSignatureValidation:
		return fmt.Sprintf("Failed to pull image %q: %v", e.Image, e.Err)
	}
	return e.Error()
}

// ids returns the IDs of the images that are mounted, by the volume's name.
func (p pulled) ids() map[string]string {
	var ids map[string]string
	for name, img := range p.volumes {
		if ids == nil {
			ids = map[string]string{}
		}
		ids[name] = img.ID
	}
	return ids
}

// annotate adds the mounted images: the runtime's container lists do not contain them, and
// image garbage collection needs them.
func (p pulled) annotate(annotations map[string]string) map[string]string {
	if len(p.volumes) == 0 {
		return annotations
	}
	with := maps.Clone(annotations)
	if with == nil {
		with = map[string]string{}
	}
	with[runtime.AnnotationImageVolumes] = strings.Join(slices.Compact(slices.Sorted(maps.Values(p.ids()))), " ")
	return with
}

// explain adds to an error from the runtime that the container mounts images. A runtime
// without support mistakes such a mount for a directory without a name.
func (p pulled) explain(err error) error {
	if len(p.volumes) == 0 {
		return err
	}
	volumes := slices.Sorted(maps.Keys(p.volumes))
	return fmt.Errorf("%w (it mounts images, as the volumes %s: a runtime that knows no such mounts, such as containerd before 2.1, cannot make it)", err, strings.Join(volumes, ", "))
}
