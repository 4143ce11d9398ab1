package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// keep leaves a user or group unchanged, which is the agent's.
const keep = -1

// groupReads are the group's permissions on a file, groupEnters those on a directory, in which new
// files also get the group.
const (
	groupReads  fs.FileMode = 0o440
	groupEnters             = 0o550 | fs.ModeSetgid
)

// owners are the user and the group for the files that are created for a pod.
type owners struct {
	// group is the pod's fsGroup, which may read its files.
	group int
	// user is the user for all containers in the pod, if they have the same: the tokens
	// for its service account belong to that user (KEP-2451).
	user int
}

// ownersOf returns the owners for files created for a pod. An agent that may not change owners
// keeps its own.
func (v *Volumes) ownersOf(pod *v1.Pod) (owners, error) {
	group, groupErr := idOf("spec.securityContext.fsGroup", fsGroup(pod), validation.IsValidGroupID)
	user, userErr := idOf("securityContext.runAsUser", commonUser(pod), validation.IsValidUserID)
	switch self := os.Geteuid(); {
	case self < 0: // Windows has no numeric owners
		group, user = keep, keep
	case v.config.Unprivileged && self != 0:
		if !isMember(group) {
			group = keep
		}
		if user != self {
			user = keep
		}
	}
	return owners{group: group, user: user}, errors.Join(groupErr, userErr)
}

// idOf returns a field's ID, keep if it is not set. validate returns why an ID is invalid.
func idOf(field string, id *int64, validate func(int64) []string) (int, error) {
	if id == nil {
		return keep, nil
	}
	if invalid := validate(*id); len(invalid) > 0 {
		return keep, fmt.Errorf("%s %d: %s", field, *id, invalid[0])
	}
	return int(*id), nil
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// isMember reports whether the agent may give its files to a group.
func isMember(group int) bool {
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(append(groups, os.Getegid()), group)
}

// commonUser returns the user for all containers in the pod, nil if they differ or one does not set a
// user. Ephemeral containers do not count: when they are added, the files already have an owner.
func commonUser(pod *v1.Pod) *int64 {
	var common *int64
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			user := userOf(pod, &containers[i])
			if user == nil || common != nil && *user != *common {
				return nil
			}
			common = user
		}
	}
	return common
}

func userOf(pod *v1.Pod, c *v1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.RunAsUser
	}
	return nil
}

// access is the owners and the mode for a file or directory.
type access struct {
	user, group int
	mode        fs.FileMode
}

// dir returns the access to a directory.
func (o owners) dir(mode fs.FileMode) access {
	if o.group != keep {
		mode |= groupEnters
	}
	return access{keep, o.group, mode}
}

// file returns the access to a file.
func (o owners) file(f file) access {
	mode := fs.FileMode(f.mode)
	if o.group != keep {
		mode |= groupReads
	}
	return access{f.user, o.group, mode}
}

// token returns the mode for a file with a token. If the file has owners, only they may read it. file adds
// the group's permissions.
func (o owners) token(mode int32) int32 {
	if o == (owners{group: keep, user: keep}) {
		return mode
	}
	return 0o600
}

// isOf reports whether a file with this info has this access.
func (a access) isOf(info fs.FileInfo) bool {
	return info.Mode()&^fs.ModeType == a.mode && isOwned(info, a.user, a.group)
}

// give sets the access of the directory with that name in root. It changes nothing if the directory already has that
// access.
func give(root *os.Root, name string, a access) error {
	dir, info, err := enter(root, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if a.isOf(info) {
		return nil
	}
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	if a.user != keep || a.group != keep {
		err = file.Chown(a.user, a.group)
	}
	if err == nil {
		err = chmodDir(file, a.mode) // after the change to the owner, which clears mode bits
	}
	return errors.Join(err, file.Close())
}

// giveTo sets the access to a file that is open for writing.
func (a access) giveTo(file *os.File) error {
	if a.user != keep || a.group != keep {
		if err := file.Chown(a.user, a.group); err != nil {
			return err
		}
	}
	return file.Chmod(a.mode) // after the change to the owner, which clears mode bits
}
