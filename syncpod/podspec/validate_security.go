package podspec

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) ids(at *field.Path, user, group *int64) {
	if user != nil {
		v.invalid(at.Child("runAsUser"), *user, validation.IsValidUserID(*user)...)
	}
	if group != nil {
		v.invalid(at.Child("runAsGroup"), *group, validation.IsValidGroupID(*group)...)
	}
}

func (v *validator) containerSecurity(at *field.Path, sc *v1.SecurityContext, spec *v1.PodSpec) {
	if sc == nil {
		return
	}
	v.ids(at, sc.RunAsUser, sc.RunAsGroup)
	v.seccomp(at.Child("seccompProfile"), sc.SeccompProfile)
	v.appArmor(at.Child("appArmorProfile"), sc.AppArmorProfile)
	if sc.ProcMount != nil {
		oneOf(v, at.Child("procMount"), *sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)
		if *sc.ProcMount == v1.UnmaskedProcMount && (spec.HostUsers == nil || *spec.HostUsers) {
			v.invalid(at.Child("procMount"), *sc.ProcMount, "needs a user namespace: spec.hostUsers must be false")
		}
	}
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation && sc.Privileged != nil && *sc.Privileged {
		v.invalid(at.Child("allowPrivilegeEscalation"), false, "must not be false in a privileged container")
	}
}

func (v *validator) seccomp(at *field.Path, p *v1.SeccompProfile) {
	if p == nil {
		return
	}
	oneOf(v, at.Child("type"), p.Type, v1.SeccompProfileTypeLocalhost, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	if v.localhost(at, p.Type == v1.SeccompProfileTypeLocalhost, p.LocalhostProfile) {
		v.below(at.Child("localhostProfile"), *p.LocalhostProfile)
	}
}

func (v *validator) appArmor(at *field.Path, p *v1.AppArmorProfile) {
	if p == nil {
		return
	}
	oneOf(v, at.Child("type"), p.Type, v1.AppArmorProfileTypeLocalhost, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	v.localhost(at, p.Type == v1.AppArmorProfileTypeLocalhost, p.LocalhostProfile)
}

// localhost checks a profile's name on the node. The name must be set if, and only if, the type requires one.
func (v *validator) localhost(at *field.Path, wanted bool, name *string) bool {
	at = at.Child("localhostProfile")
	switch {
	case wanted && (name == nil || strings.TrimSpace(*name) == ""):
		v.add(field.Required(at, "must be set with the type Localhost"))
	case !wanted && name != nil:
		v.add(field.Forbidden(at, "must only be set with the type Localhost"))
	default:
		return wanted
	}
	return false
}

// below checks a path that is joined to a directory and must stay in it.
func (v *validator) below(at *field.Path, p string) {
	switch {
	case path.IsAbs(p):
		v.invalid(at, p, "must be a relative path")
	default:
		v.noBacksteps(at, p)
	}
}

func (v *validator) noBacksteps(at *field.Path, p string) {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			v.invalid(at, p, "must not contain '..'")
			return
		}
	}
}
