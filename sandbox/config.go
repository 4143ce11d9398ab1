package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
)

// Input is the input of [GeneratePodSandboxConfig].
type Input struct {
	// Pod is the pod, required.
	Pod *v1.Pod
	// Attempt counts the pod's sandboxes, from 0. Runtimes reserve a name made from the pod's
	// name and the attempt, so the attempt must increase.
	Attempt uint32

	// Hostname is the pod's hostname. The zero value means what [GeneratePodHostname] returns for the pod and
	// ClusterDomain. It is not used for a pod on the node's network.
	Hostname Hostname
	// ClusterDomain is the cluster's DNS domain, such as "cluster.local".
	ClusterDomain string
	// DNS is the pod's resolver configuration; see [GetPodDNS]. If it is nil, the runtime uses the node's.
	DNS *runtimeapi.DNSConfig

	// CgroupParent is the sandbox's parent cgroup, in the form of the runtime's cgroup driver. If it
	// is empty, the runtime chooses the parent.
	CgroupParent string
	// NoCPUQuota turns CPU limits off.
	NoCPUQuota bool
	// CPUPeriod is the accounting period for CPU limits, 0 means 100 ms.
	CPUPeriod time.Duration

	// LogsRoot is the directory for all pod logs, "" means DefaultLogsRoot.
	LogsRoot string
	// UserNamespace maps the IDs for a pod with spec.hostUsers false (KEP-127)
	// and is then required. It is not used for other pods.
	UserNamespace *runtimeapi.UserNamespace
	// ExtraGroups are supplemental groups that the pod's volumes need.
	ExtraGroups []int64
	// Labels are added to the pod's, such as the owning agent's label. They take
	// precedence over the pod's labels, but not over those that identify the pod.
	Labels map[string]string
}

// GeneratePodSandboxConfig returns the pod's sandbox configuration. An error names the invalid field in the pod or the input.
func GeneratePodSandboxConfig(in Input) (*runtimeapi.PodSandboxConfig, error) {
	if in.Pod == nil {
		return nil, errors.New("sandbox: Input.Pod is required")
	}
	config, err := in.config()
	if err != nil {
		return nil, fmt.Errorf("sandbox of pod %s/%s: %w", in.Pod.Namespace, in.Pod.Name, err)
	}
	return config, nil
}

func (in *Input) config() (*runtimeapi.PodSandboxConfig, error) {
	logs, err := BuildPodLogsDirectory(in.LogsRoot, in.Pod)
	if err != nil {
		return nil, err
	}
	hostname, err := in.hostname()
	if err != nil {
		return nil, err
	}
	linux, err := in.linux()
	if err != nil {
		return nil, err
	}
	labels := in.labels()
	if n := size(labels) + size(in.Pod.Annotations); n > maxMetadata {
		return nil, fmt.Errorf("metadata.annotations: the labels and annotations of the pod have %d bytes, more than %d", n, maxMetadata)
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name:      in.Pod.Name,
			Namespace: in.Pod.Namespace,
			Uid:       string(in.Pod.UID),
			Attempt:   in.Attempt,
		},
		Hostname:     hostname,
		LogDirectory: logs,
		DnsConfig:    in.dns(),
		PortMappings: portMappings(&in.Pod.Spec),
		Labels:       labels,
		Annotations:  maps.Clone(in.Pod.Annotations),
		Linux:        linux,
	}, nil
}

// maxMetadata limits the labels and annotations of a sandbox, in bytes. The runtime returns those of all sandboxes in one
// message with at most 16 MiB; an agent that cannot read it knows no pod. The limit leaves room for two sandboxes for each
// pod among a kubelet's 110.
const maxMetadata = 64 << 10

func size(values map[string]string) (bytes int) {
	for key, value := range values {
		bytes += len(key) + len(value)
	}
	return bytes
}

// hostname returns the hostname that the sandbox's kernel reports, "" on the node's network, where it is the node's.
func (in *Input) hostname() (string, error) {
	if in.Pod.Spec.HostNetwork {
		return "", nil
	}
	name := in.Hostname
	if name == (Hostname{}) {
		var err error
		if name, err = GeneratePodHostname(in.Pod, in.ClusterDomain); err != nil {
			return "", err
		}
	}
	if name.Host == "" {
		return "", errors.New("Input.Hostname has a domain, but no host")
	}
	return name.Kernel(in.Pod)
}

func (in *Input) dns() *runtimeapi.DNSConfig {
	if in.DNS == nil {
		return nil
	}
	return &runtimeapi.DNSConfig{
		Servers:  slices.Clone(in.DNS.Servers),
		Searches: slices.Clone(in.DNS.Searches),
		Options:  slices.Clone(in.DNS.Options),
	}
}

func (in *Input) labels() map[string]string {
	labels := make(map[string]string, len(in.Pod.Labels)+len(in.Labels)+3)
	maps.Copy(labels, in.Pod.Labels)
	maps.Copy(labels, in.Labels)
	labels[runtime.LabelPodName] = in.Pod.Name
	labels[runtime.LabelPodNamespace] = in.Pod.Namespace
	labels[runtime.LabelPodUID] = string(in.Pod.UID)
	return labels
}

// BuildPodLogsDirectory returns the pod's log directory below root, where "" means
// DefaultLogsRoot: <root>/<namespace>_<name>_<uid>. Log shippers read the pod's identity
// from it. pod is required. It is an error if any is empty or could lead outside root.
func BuildPodLogsDirectory(root string, pod *v1.Pod) (string, error) {
	if pod == nil {
		return "", errors.New("log directory: the pod is nil")
	}
	err := errors.Join(
		hostfs.Element("metadata.namespace", pod.Namespace),
		hostfs.Element("metadata.name", pod.Name),
		hostfs.Element("metadata.uid", string(pod.UID)),
	)
	if err != nil {
		return "", err
	}
	if root == "" {
		root = DefaultLogsRoot
	}
	return path.Join(root, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID)), nil
}
