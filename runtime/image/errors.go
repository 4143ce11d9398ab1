package image

import (
	"fmt"
	"time"
)

// Reason is why a container waits for its image. The texts are those that a kubelet writes to
// v1.ContainerStateWaiting.Reason. A Reason is an error: test for it with errors.Is.
type Reason string

// Error returns the reason.
func (r Reason) Error() string { return string(r) }

// The reasons.
const (
	// ErrImagePull: the pull failed.
	ErrImagePull Reason = "ErrImagePull"
	// ErrImagePullBackOff: an earlier pull failed, and the back-off before the next one has not ended.
	ErrImagePullBackOff Reason = "ImagePullBackOff"
	// ErrImageNeverPull: the image is not present, and its pull policy is Never.
	ErrImageNeverPull Reason = "ErrImageNeverPull"
	// ErrImageInspect: the runtime failed to report whether the image is present.
	ErrImageInspect Reason = "ImageInspectError"
	// ErrInvalidImageName: the image's name does not parse.
	ErrInvalidImageName Reason = "InvalidImageName"
	// ErrRegistryUnavailable: the pull failed because the registry could not be reached.
	ErrRegistryUnavailable Reason = "RegistryUnavailable"
	// ErrSignatureValidation: the image's signature was not accepted.
	ErrSignatureValidation Reason = "SignatureValidationFailed"
)

// Error reports why an image cannot be used. It never contains a credential.
type Error struct {
	Reason Reason
	// Image is the image's name in the pod's spec.
	Image string
	// RetryAt is when the next pull may begin. Zero means that a retry may begin at any time. A
	// request with other credentials need not wait.
	RetryAt time.Time
	// Err is the cause, nil if the reason needs no explanation. With ErrImagePullBackOff it is the
	// failed pull's cause.
	Err error
}

// Error returns a sentence that fits into a container's status.
func (e *Error) Error() string {
	var text string
	switch e.Reason {
	case ErrImagePullBackOff:
		text = fmt.Sprintf("Back-off pulling image %q", e.Image)
	case ErrImageNeverPull:
		if text = fmt.Sprintf("Container image %q is not present with pull policy of Never", e.Image); e.Err != nil {
			text = fmt.Sprintf("Container image %q cannot be used with pull policy of Never", e.Image)
		}
	case ErrInvalidImageName:
		text = fmt.Sprintf("Failed to apply default image tag %q", e.Image)
	case ErrImageInspect:
		text = fmt.Sprintf("Failed to inspect image %q", e.Image)
	case ErrRegistryUnavailable:
		text = fmt.Sprintf("image pull failed for %s because the registry is unavailable", e.Image)
	case ErrSignatureValidation:
		text = fmt.Sprintf("image pull failed for %s because the signature validation failed", e.Image)
	default:
		text = fmt.Sprintf("failed to pull image %q", e.Image)
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap lets errors.Is find the reason, and errors.As the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}
