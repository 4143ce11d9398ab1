package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

// Name is the path to a cgroup from the tree's root, one element for each level. A Name
// returned by [ParseName] or a function below is safe to use as a path.
type Name []string

// ParseName returns the name for a path such as "/runtime/kubepods". The path "/" is the tree's root. An element must not be
// "." or "..", and must not contain a newline.
func ParseName(s string) (Name, error) {
	var name Name
	if s = strings.Trim(s, "/"); s == "" {
		return nil, nil
	}
	for element := range strings.SplitSeq(s, "/") {
		if err := checkElement("an element", element); err != nil {
			return nil, fmt.Errorf("cgroup %q: %w", s, err)
		}
		name = append(name, element)
	}
	return name, nil
}

// ClassName returns the cgroup for all pods in a class below root: for Guaranteed pods it is
// root itself.
func ClassName(root Name, class v1.PodQOSClass) (Name, error) {
	switch class {
	case v1.PodQOSGuaranteed:
		return slices.Clone(root), nil
	case v1.PodQOSBurstable, v1.PodQOSBestEffort:
		return root.child(strings.ToLower(string(class))), nil
	}
	return nil, fmt.Errorf("class %q is not Guaranteed, Burstable or BestEffort", class)
}

// PodName returns a pod's cgroup below root.
func PodName(root Name, class v1.PodQOSClass, uid types.UID) (Name, error) {
	if uid == "" {
		return nil, errors.New("metadata.uid is empty")
	}
	if err := checkElement("metadata.uid", podElement(uid)); err != nil {
		return nil, err
	}
	above, err := ClassName(root, class)
	if err != nil {
		return nil, err
	}
	return above.child(podElement(uid)), nil
}

func checkElement(field, s string) error {
	if strings.ContainsAny(s, "\r\n") {
		return fmt.Errorf("%s %q has more than one line", field, s)
	}
	return hostfs.Element(field, s)
}

func podElement(uid types.UID) string { return "pod" + string(uid) }

func (n Name) child(element string) Name { return append(slices.Clip(n), element) }

// Parent returns the cgroup above. The parent of the root is the root.
func (n Name) Parent() Name { return n[:max(len(n)-1, 0)] }

// Path returns the name in the form that a driver uses, an absolute path from the tree's root. CRI's cgroup_parent has
// the same form.
func (n Name) Path(d Driver) string {
	if d == Systemd {
		return n.systemd()
	}
	return "/" + path.Join(n...)
}

// systemd returns a slice's path. In a slice's name a dash separates levels, so a dash within an element becomes an
// underscore.
func (n Name) systemd() string {
	at, slice := "/", ""
	for _, element := range n {
		slice += strings.ReplaceAll(element, "-", "_")
		at = path.Join(at, slice+".slice")
		slice += "-"
	}
	return at
}
