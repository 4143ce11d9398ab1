package container

import (
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
)

// ErrRunAsNonRoot means that a container may not run as root (runAsNonRoot) and
// would, or cannot be shown not to.
var ErrRunAsNonRoot = errors.New("runAsNonRoot is set")

// CheckNonRoot returns an error that wraps [ErrRunAsNonRoot] if the container
// must not run as root but would. It looks at the user of the spec, and, where
// there is none, at that of the image. A user of the image known only by name
// may well be root under another name, and is refused. So is a UID outside the range of
// securityContext.runAsUser: cut to 32 bits it may be 0.
func CheckNonRoot(pod *v1.Pod, c *v1.Container, image Image) error {
	if pod == nil || c == nil {
		return errors.New("runAsNonRoot: the pod or container is nil")
	}
	sc := effective(pod.Spec.SecurityContext, c.SecurityContext)
	if !isTrue(sc.RunAsNonRoot) {
		return nil
	}
	uid, username := image.user(sc)
	switch {
	case uid == nil:
		return fmt.Errorf("%w and the image's user %q is a name, which may be root", ErrRunAsNonRoot, username)
	case *uid < 0, *uid > math.MaxInt32:
		return fmt.Errorf("%w and the user's UID %d is not from 0 to %d: a runtime may take it for another one", ErrRunAsNonRoot, *uid, math.MaxInt32)
	case *uid != 0:
		return nil
	case sc.RunAsUser != nil:
		return fmt.Errorf("%w and securityContext.runAsUser is 0, root", ErrRunAsNonRoot)
	}
	return fmt.Errorf("%w and the image runs as root", ErrRunAsNonRoot)
}

// user returns the user of the container's process: the spec's, or the image's,
// by number where it has one and by name where not. An image without a user runs
// as root.
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
