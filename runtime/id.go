package runtime

import (
	"errors"
	"fmt"
	"strings"
)

// ContainerID identifies a container across runtimes, in the form the
// Kubernetes API uses in v1.ContainerStatus.ContainerID: "type://id".
// The zero ContainerID names no container.
type ContainerID struct {
	// Type is the runtime's name as its CRI Version call reports it, such as
	// "containerd" or "cri-o".
	Type string
	// ID is the runtime's own identifier, opaque to podsync.
	ID string
}

// ParseContainerID parses the form "type://id". Neither part may be empty; the error names the empty
// one.
func ParseContainerID(s string) (ContainerID, error) {
	typ, id, ok := strings.Cut(s, "://")
	switch {
	case !ok:
		return ContainerID{}, fmt.Errorf("container ID %q: want the form type://id", s)
	case typ == "":
		return ContainerID{}, fmt.Errorf("container ID %q: the runtime type before :// is empty", s)
	case id == "":
		return ContainerID{}, fmt.Errorf("container ID %q: the identifier after :// is empty", s)
	}
	return ContainerID{Type: typ, ID: id}, nil
}

// String returns the "type://id" form, or "" for the zero ContainerID.
func (c ContainerID) String() string {
	if c.IsZero() {
		return ""
	}
	return c.Type + "://" + c.ID
}

// IsZero reports whether c names no container.
func (c ContainerID) IsZero() bool { return c == ContainerID{} }

// CheckRuntimeName returns an error for a name that cannot be the Type of a ContainerID.
func CheckRuntimeName(name string) error {
	switch {
	case name == "":
		return errors.New("RuntimeName is missing: only a Client of cri.Dial knows it; " +
			`it is what the runtime calls itself, such as "containerd" or "cri-o"`)
	case strings.ContainsAny(name, ":/"):
		return fmt.Errorf("RuntimeName %q has a colon or a slash, which end it in a container ID", name)
	}
	return nil
}
