package critest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The runtime's mu guards a sandbox's fields, except those above the blank line, which do not change.
type sandbox struct {
	id, name string
	seq      int
	config   *runtimeapi.PodSandboxConfig
	podUID   string // from its label
	handler  string

	state     runtimeapi.PodSandboxState
	createdAt int64
	ips       []string  // none in the node's network, and after a stop
	lastIPs   []string  // CRI-O still reports them after a stop
	ipsFrom   time.Time // when the runtime starts to report them
	unclaimed bool      // created for a caller that had disconnected: CRI-O does not show it
	silent    bool      // CRI-O sends no event of its removal, nor of its containers' removal
	overhead  *runtimeapi.LinuxContainerResources
	resources *runtimeapi.LinuxContainerResources
	ports     map[int32]*pipe // the ports that programs listen on
	servers   int             // the number of running servers, which have all other ports
}

func (s *sandbox) namespaces() *runtimeapi.NamespaceOption {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

func (s *sandbox) onNodeNetwork() bool {
	return s.namespaces().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// hostname is that of the pod, or of the node in its network.
func (s *sandbox) hostname() string { return cmp.Or(s.config.GetHostname(), "node") }

func (s *sandbox) ready() bool { return s.state == runtimeapi.PodSandboxState_SANDBOX_READY }

// status must be called with mu held.
func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if ips := slices.Concat(s.ips, s.lastIPs); len(ips) > 0 && !time.Now().Before(s.ipsFrom) {
		network.Ip = ips[0]
		for _, ip := range ips[1:] {
			network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return &runtimeapi.PodSandboxStatus{
		Id:             s.id,
		Metadata:       proto.CloneOf(s.config.GetMetadata()),
		State:          s.state,
		CreatedAt:      s.createdAt,
		Network:        network,
		Linux:          &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: proto.CloneOf(s.namespaces())}},
		Labels:         maps.Clone(s.config.GetLabels()),
		Annotations:    maps.Clone(s.config.GetAnnotations()),
		RuntimeHandler: s.handler,
	}
}
