package sandbox

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxHostname is a DNS label's length (RFC 1123).
	maxHostname = validation.DNS1123LabelMaxLength
	// maxKernelHostname is the maximum name length in Linux (HOST_NAME_MAX).
	maxKernelHostname = 64
)

// Hostname is a pod's host name, in two parts.
type Hostname struct {
	// Host is the hostname, without a domain.
	Host string
	// Domain is the domain in the pod's own DNS name, empty if it has none.
	Domain string
}

// FQDN returns Host and Domain joined by a dot, or Host if there is no domain.
func (h Hostname) FQDN() string {
	if h.Domain == "" {
		return h.Host
	}
	return h.Host + "." + h.Domain
}

// Kernel returns the hostname that the kernel reports in the pod: the FQDN if the pod requests it
// (spec.setHostnameAsFQDN) and has a domain, and Host otherwise. An FQDN with more than 64 characters is an error with
// a kubelet's text, because Linux does not support it.
func (h Hostname) Kernel(pod *v1.Pod) (string, error) {
	if pod == nil || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN || h.Domain == "" {
		return h.Host, nil
	}
	fqdn := h.FQDN()
	if len(fqdn) > maxKernelHostname {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested): spec.setHostnameAsFQDN is set",
			fqdn, maxKernelHostname, len(fqdn))
	}
	return fqdn, nil
}

// GeneratePodHostname returns a pod's hostname.
//
// The host is spec.hostname, or else the pod's name, truncated to a DNS label's 63 characters. The domain is
// <subdomain>.<namespace>.svc.<clusterDomain> for a pod with a spec.subdomain. A spec.hostnameOverride (KEP-4762)
// replaces both. GeneratePodHostname returns an error if a used name is not a DNS name.
func GeneratePodHostname(pod *v1.Pod, clusterDomain string) (Hostname, error) {
	if pod == nil {
		return Hostname{}, errors.New("hostname: the pod is nil")
	}
	spec := &pod.Spec
	if spec.HostnameOverride != nil && *spec.HostnameOverride != "" {
		return overridden(*spec.HostnameOverride)
	}
	host, err := host(pod)
	if err != nil {
		return Hostname{}, err
	}
	if spec.Subdomain == "" {
		return Hostname{Host: host}, nil
	}
	if err := label("spec.subdomain", spec.Subdomain); err != nil {
		return Hostname{}, err
	}
	if err := label("metadata.namespace", pod.Namespace); err != nil {
		return Hostname{}, err
	}
	domain := spec.Subdomain + "." + pod.Namespace + ".svc"
	if clusterDomain != "" {
		domain += "." + clusterDomain
	}
	return Hostname{Host: host, Domain: domain}, nil
}

func overridden(name string) (Hostname, error) {
	problems := validation.IsDNS1123Subdomain(name)
	if len(name) > maxKernelHostname {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxKernelHostname))
	}
	if len(problems) > 0 {
		return Hostname{}, fmt.Errorf("spec.hostnameOverride %q: %s", name, strings.Join(problems, "; "))
	}
	return Hostname{Host: name}, nil
}

// host returns the name without the domain. A pod's name is a DNS subdomain and may be longer than a label.
func host(pod *v1.Pod) (string, error) {
	if name := pod.Spec.Hostname; name != "" {
		return name, label("spec.hostname", name)
	}
	name := pod.Name
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("metadata.name %q: %s", name, strings.Join(problems, "; "))
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name, nil
}

func label(field, s string) error {
	if problems := validation.IsDNS1123Label(s); len(problems) > 0 {
		return fmt.Errorf("%s %q: %s", field, s, strings.Join(problems, "; "))
	}
	return nil
}
