package container

import (
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
)

// seccompProfile returns the seccomp profile in the spec, or the node's default. The node's profiles have paths
// below SeccompRoot.
func seccompProfile(n *Node, p *v1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	if p == nil {
		if n.SeccompDefault {
			return profile(runtimeapi.SecurityProfile_RuntimeDefault), nil
		}
		return profile(runtimeapi.SecurityProfile_Unconfined), nil
	}
	switch p.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault), nil
	case v1.SeccompProfileTypeUnconfined:
		return profile(runtimeapi.SecurityProfile_Unconfined), nil
	case v1.SeccompProfileTypeLocalhost:
		return localSeccomp(n, p.LocalhostProfile)
	}
	return nil, fmt.Errorf("seccompProfile.type %q is not known, want RuntimeDefault, Unconfined or Localhost", p.Type)
}

func profile(t runtimeapi.SecurityProfile_ProfileType) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: t}
}

func localProfile(ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: ref}
}

func localSeccomp(n *Node, name *string) (*runtimeapi.SecurityProfile, error) {
	if name == nil {
		return nil, fmt.Errorf("seccompProfile.localhostProfile is required with type Localhost")
	}
	if err := hostfs.Relative("seccompProfile.localhostProfile", *name); err != nil {
		return nil, err
	}
	root := n.SeccompRoot
	if root == "" {
		root = DefaultSeccompRoot
	}
	return localProfile(path.Join(root, *name)), nil
}

// appArmor is an AppArmor profile in both forms that runtimes read: the message, and the older name.
type appArmor struct {
	profile *runtimeapi.SecurityProfile
	name    string
}

// AppArmorProfile returns a container's AppArmor profile: from its security context, else from its
// annotation, else from the pod's security context. It returns nil if none is set; the runtime then
// applies its default. A nil pod or container sets none.
func AppArmorProfile(pod *v1.Pod, c *v1.Container) *v1.AppArmorProfile {
	if pod == nil || c == nil {
		return nil
	}
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if annotated := annotatedAppArmor(pod, c.Name); annotated != nil || pod.Spec.SecurityContext == nil {
		return annotated
	}
	return pod.Spec.SecurityContext.AppArmorProfile
}

func appArmorOf(pod *v1.Pod, c *v1.Container) (appArmor, error) {
	if p := AppArmorProfile(pod, c); p != nil {
		return convertAppArmor(p)
	}
	return appArmor{}, nil
}

func convertAppArmor(p *v1.AppArmorProfile) (appArmor, error) {
	switch p.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return appArmor{profile(runtimeapi.SecurityProfile_RuntimeDefault), v1.DeprecatedAppArmorBetaProfileRuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return appArmor{profile(runtimeapi.SecurityProfile_Unconfined), v1.DeprecatedAppArmorBetaProfileNameUnconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "" {
			return appArmor{}, fmt.Errorf("appArmorProfile.localhostProfile is required with type Localhost")
		}
		return appArmor{localProfile(*p.LocalhostProfile), v1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile}, nil
	}
	return appArmor{}, fmt.Errorf("appArmorProfile.type %q is not known, want RuntimeDefault, Unconfined or Localhost", p.Type)
}

// annotatedAppArmor reads the annotation that preceded the field. An API server copies it to the
// field; only pods from other sources need it (KEP-24).
func annotatedAppArmor(pod *v1.Pod, name string) *v1.AppArmorProfile {
	value := pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+name]
	if value == "" || !runtime.IsStatic(pod) {
		return nil
	}
	switch local, isLocal := strings.CutPrefix(value, v1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case isLocal:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	case value == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case value == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	// The value is not a profile. As an unknown type it is rejected, so that the container does not run unconfined.
	return &v1.AppArmorProfile{Type: v1.AppArmorProfileType(value)}
}
