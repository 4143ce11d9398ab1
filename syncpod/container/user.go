package container

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ErrRunAsNonRoot means that a container must not run as root (runAsNonRoot), and would run as root or might.
var ErrRunAsNonRoot = errors.New("runAsNonRoot is set")

// VerifyRunAsNonRoot returns an error that wraps [ErrRunAsNonRoot] if the container must not run as root but would. It
// checks the spec's user, or if the spec has none, the image's user. It rejects an image user that is only a name,
// because any name may belong to root. It also rejects a number that runAsUser does not allow, because a runtime that
// keeps 32 bits from 1<<32 runs the process as root. The error names the field or the image.
func VerifyRunAsNonRoot(pod *v1.Pod, c *v1.Container, image Image) error {
	if pod == nil || c == nil {
		return errors.New("runAsNonRoot: the pod or container is nil")
	}
	sc := effective(pod.Spec.SecurityContext, c.SecurityContext)
	if !isTrue(sc.RunAsNonRoot) {
		return nil
	}
	uid, username := image.user(sc)
	if uid == nil {
		return fmt.Errorf("%w and the user %q of image %q is a name, which may be root", ErrRunAsNonRoot, username, c.Image)
	}
	user := fmt.Sprintf("the user %d of image %q", *uid, c.Image)
	if sc.RunAsUser != nil {
		user = fmt.Sprintf("securityContext.runAsUser %d", *uid)
	}
	if invalid := validation.IsValidUserID(*uid); len(invalid) > 0 {
		return fmt.Errorf("%w and %s is no user ID: %s", ErrRunAsNonRoot, user, invalid[0])
	}
	if *uid == 0 {
		return fmt.Errorf("%w and %s is root", ErrRunAsNonRoot, user)
	}
	return nil
}

// user returns the container's process user: the spec's or the image's, by number if it has one and otherwise by
// name. An image without a user runs as root.
func (i *Image) user(sc v1.SecurityContext) (uid *int64, username string) {
	switch {
	case sc.RunAsUser != nil:
		return sc.RunAsUser, ""
	case i.UID != nil:
		return i.UID, ""
	case i.Username != "":
		return nil, i.Username
	}
	return new(int64), ""
}
