package critest

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A sandbox's fields are guarded by the runtime's mu; those above the blank
// line do not change.
type sandbox struct {
	id, name string
	seq      int
	config   *runtimeapi.PodSandboxConfig
	podUID   string // as its label says
	handler  string

	state     runtimeapi.PodSandboxState
	createdAt int64
	ips       []string  // none for the node's network and once torn down
	lastIPs   []string  // CRI-O still reports them after that
	ipsFrom   time.Time // when they start to be reported
	unclaimed bool      // created for a caller that had gone: CRI-O does not show it
	silent    bool      // CRI-O sends no event of its removal, nor of its containers'
	overhead  *runtimeapi.LinuxContainerResources
	resources *runtimeapi.LinuxContainerResources
	ports     map[int32]*pipe // that programs listen on
	servers   int             // how many servers run, which have all other ports
}

func (s *sandbox) namespaces() *runtimeapi.NamespaceOption {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
}

func (s *sandbox) onNodeNetwork() bool {
	return s.namespaces().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

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
