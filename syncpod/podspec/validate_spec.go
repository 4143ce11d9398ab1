package podspec

import (
	"math"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxSeconds = math.MaxInt64 / 1_000_000_000 // the maximum of a time.Duration

	// A resolver's limits, by the API's rules.
	maxNameservers   = 3
	maxSearches      = 32
	maxSearchesChars = 2048
	maxHostname      = 64
)

func (v *validator) spec(spec *v1.PodSpec) {
	at := field.NewPath("spec")
	volumes := v.volumes(spec.Volumes, at.Child("volumes"))
	v.containers(spec, volumes)
	oneOf(v, at.Child("restartPolicy"), spec.RestartPolicy, v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	v.add(inRange(at.Child("terminationGracePeriodSeconds"), spec.TerminationGracePeriodSeconds, 0, maxSeconds)...)
	v.add(inRange(at.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 1, math.MaxInt32)...)
	if spec.EnableServiceLinks == nil {
		v.add(field.Required(at.Child("enableServiceLinks"), ""))
	}
	v.dns(spec, at)
	v.hostname(spec, at)
	v.podSecurity(spec, at)
	v.optional(at.Child("nodeName"), spec.NodeName, validation.IsDNS1123Subdomain)
	v.optional(at.Child("serviceAccountName"), spec.ServiceAccountName, validation.IsDNS1123Subdomain)
	if spec.RuntimeClassName != nil {
		v.text(at.Child("runtimeClassName"), *spec.RuntimeClassName, validation.IsDNS1123Subdomain)
	}
	for i, gate := range spec.ReadinessGates {
		v.text(at.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType), validation.IsQualifiedName)
	}
	v.amounts(at.Child("overhead"), spec.Overhead)
	v.podResources(spec, at.Child("resources"))
}

func (v *validator) dns(spec *v1.PodSpec, at *field.Path) {
	oneOf(v, at.Child("dnsPolicy"), spec.DNSPolicy, v1.DNSClusterFirst, v1.DNSClusterFirstWithHostNet, v1.DNSDefault, v1.DNSNone)
	config := spec.DNSConfig
	at = at.Child("dnsConfig")
	if config == nil {
		config = &v1.PodDNSConfig{}
	}
	servers := at.Child("nameservers")
	switch n := len(config.Nameservers); {
	case n == 0 && spec.DNSPolicy == v1.DNSNone:
		v.add(field.Required(servers, "must provide one with the dnsPolicy None"))
	case n > maxNameservers:
		v.add(field.TooMany(servers, n, maxNameservers))
	}
	for i, s := range config.Nameservers {
		v.add(validation.IsValidIPForLegacyField(servers.Index(i), s, true, nil)...)
	}
	v.searches(config.Searches, at.Child("searches"))
	for i, o := range config.Options {
		v.text(at.Child("options").Index(i).Child("name"), o.Name, present)
	}
}

func (v *validator) searches(searches []string, at *field.Path) {
	if len(searches) > maxSearches {
		v.add(field.TooMany(at, len(searches), maxSearches))
	}
	if len(strings.Join(searches, " ")) > maxSearchesChars {
		v.add(field.TooLong(at, "", maxSearchesChars))
	}
	for i, s := range searches {
		if s != "." { // the root
			v.text(at.Index(i), strings.TrimSuffix(s, "."), validation.IsDNS1123SubdomainWithUnderscore)
		}
	}
}

func (v *validator) hostname(spec *v1.PodSpec, at *field.Path) {
	v.optional(at.Child("hostname"), spec.Hostname, validation.IsDNS1123Label)
	v.optional(at.Child("subdomain"), spec.Subdomain, validation.IsDNS1123Label)
	if name := spec.HostnameOverride; name != nil {
		override := at.Child("hostnameOverride")
		v.optional(override, *name, validation.IsDNS1123Subdomain)
		switch {
		case len(*name) > maxHostname:
			v.add(field.TooLong(override, "", maxHostname))
		case spec.HostNetwork:
			v.add(field.Forbidden(override, "must not be set with hostNetwork"))
		case spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN:
			v.add(field.Forbidden(override, "must not be set with setHostnameAsFQDN"))
		}
	}
	for i, alias := range spec.HostAliases {
		at := at.Child("hostAliases").Index(i)
		v.add(validation.IsValidIPForLegacyField(at.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			v.text(at.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain)
		}
	}
}

func (v *validator) podSecurity(spec *v1.PodSpec, at *field.Path) {
	sc := spec.SecurityContext
	if spec.HostPID && spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace {
		v.add(field.Forbidden(at.Child("shareProcessNamespace"), "must not be set with hostPID"))
	}
	if spec.HostUsers != nil && !*spec.HostUsers && (spec.HostNetwork || spec.HostPID || spec.HostIPC) {
		v.add(field.Forbidden(at.Child("hostUsers"), "must not be false with hostNetwork, hostPID or hostIPC"))
	}
	at = at.Child("securityContext")
	if sc == nil {
		v.add(field.Required(at, ""))
		return
	}
	v.ids(at, sc.RunAsUser, sc.RunAsGroup)
	if sc.FSGroup != nil {
		v.invalid(at.Child("fsGroup"), *sc.FSGroup, validation.IsValidGroupID(*sc.FSGroup)...)
	}
	for i, id := range sc.SupplementalGroups {
		v.invalid(at.Child("supplementalGroups").Index(i), id, validation.IsValidGroupID(id)...)
	}
	v.seccomp(at.Child("seccompProfile"), sc.SeccompProfile)
	v.appArmor(at.Child("appArmorProfile"), sc.AppArmorProfile)
	v.sysctls(spec, at.Child("sysctls"))
}

// sysctlName matches a kernel parameter's name, whose parts are separated by . or /.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

const maxSysctlName = 253

func (v *validator) sysctls(spec *v1.PodSpec, at *field.Path) {
	unique := v.unique()
	for i, s := range spec.SecurityContext.Sysctls {
		at := at.Index(i).Child("name")
		dotted := strings.ReplaceAll(s.Name, "/", ".")
		unique(at, dotted)
		switch {
		case s.Name == "":
			v.add(field.Required(at, ""))
		case len(s.Name) > maxSysctlName || !sysctlName.MatchString(s.Name):
			v.invalid(at, s.Name, "must be the name of a kernel parameter, such as net.ipv4.ip_forward")
		case spec.HostNetwork && strings.HasPrefix(dotted, "net."):
			v.add(field.Forbidden(at, "must not be of the network with hostNetwork"))
		case spec.HostIPC && (strings.HasPrefix(dotted, "kernel.shm") || strings.HasPrefix(dotted, "kernel.msg") ||
			dotted == "kernel.sem" || strings.HasPrefix(dotted, "fs.mqueue.")):
			v.add(field.Forbidden(at, "must not be of interprocess communication with hostIPC"))
		}
	}
}
