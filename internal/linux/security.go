package linux

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Namespaces returns which namespaces the containers in a pod share with each other and with the
// node. users is the pod's mapping of IDs; it is required and used only if the pod has a user
// namespace of its own (spec.hostUsers false, KEP-127).
func Namespaces(spec *v1.PodSpec, users *runtimeapi.UserNamespace) (*runtimeapi.NamespaceOption, error) {
	ns := &runtimeapi.NamespaceOption{
		Network: mode(spec.HostNetwork),
		Ipc:     mode(spec.HostIPC),
		Pid:     processes(spec),
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		if users == nil {
			return nil, fmt.Errorf("spec.hostUsers is false, but no mapping of user IDs was given")
		}
		ns.UsernsOptions = proto.CloneOf(users)
	}
	return ns, nil
}

func mode(host bool) runtimeapi.NamespaceMode {
	if host {
		return runtimeapi.NamespaceMode_NODE
	}
	return runtimeapi.NamespaceMode_POD
}

func processes(spec *v1.PodSpec) runtimeapi.NamespaceMode {
	switch {
	case spec.HostPID:
		return runtimeapi.NamespaceMode_NODE
	case spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace:
		return runtimeapi.NamespaceMode_POD
	}
	return runtimeapi.NamespaceMode_CONTAINER
}

// Groups returns the supplemental groups of a pod's processes: the owner of its volumes (fsGroup),
// the groups in its spec, and extra, which its volumes need. sc may be nil.
func Groups(sc *v1.PodSecurityContext, extra []int64) []int64 {
	if sc == nil {
		return slices.Clone(extra)
	}
	var groups []int64
	if sc.FSGroup != nil {
		groups = append(groups, *sc.FSGroup)
	}
	return append(append(groups, sc.SupplementalGroups...), extra...)
}

// GroupsPolicy returns how the image's groups are added. sc may be nil.
// An unknown policy is an error.
func GroupsPolicy(sc *v1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if sc == nil || sc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	switch policy := *sc.SupplementalGroupsPolicy; policy {
	case v1.SupplementalGroupsPolicyMerge:
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case v1.SupplementalGroupsPolicyStrict:
		return runtimeapi.SupplementalGroupsPolicy_Strict, nil
	default:
		return 0, fmt.Errorf("spec.securityContext.supplementalGroupsPolicy %q is not known, want Merge or Strict", policy)
	}
}

// SELinux converts a label to CRI's type, nil to nil.
func SELinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// ID converts an ID to CRI's type, nil to nil.
func ID(id *int64) *runtimeapi.Int64Value {
	if id == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *id}
}
