package node

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// Version is the version that the Node reports: pods can expect the behaviour of a kubelet of this version.
const Version = "v1.36.2+podsync"

// maxImageNames limits the names of an image in a status.
const maxImageNames = 5

// describe writes the node's current state to the status of object.
func (n *Node) describe(object *v1.Node) {
	look, s := n.runtimeState(), &object.Status
	s.Capacity, s.Allocatable = n.resources(s)
	s.Addresses = n.addresses(s.Addresses)
	s.DaemonEndpoints.KubeletEndpoint.Port = n.config.Port
	s.DeclaredFeatures = declaredFeatures()
	if n.config.VolumesInUse != nil {
		s.VolumesInUse = n.config.VolumesInUse()
	}
	s.NodeInfo = n.info(look)
	if look.images != nil {
		s.Images = look.images
	}
	if look.status != nil {
		s.RuntimeHandlers, s.Features = handlers(look.status), features(look.status)
	}
	n.setConditions(s, cmp.Or(n.config.NotReady(), look.notReady(time.Now())))
}

func (n *Node) runtimeState() runtimeState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runtime
}

// resources returns the resources of the machine and of device plugins, and the resources that others, such as a device
// operator, have written to the Node. All of the latter are allocatable, unless the others have written less. Only the
// node itself reports huge pages.
func (n *Node) resources(there *v1.NodeStatus) (capacity, allocatable v1.ResourceList) {
	capacity, allocatable = n.config.Capacity.DeepCopy(), n.config.Allocatable.DeepCopy()
	devices, healthy := n.config.Devices()
	maps.Copy(capacity, devices)
	maps.Copy(allocatable, healthy)
	for name, q := range there.Capacity {
		if _, ours := capacity[name]; ours || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			continue
		}
		capacity[name], allocatable[name] = q.DeepCopy(), q.DeepCopy()
		if less, ok := there.Allocatable[name]; ok && less.Cmp(q) < 0 {
			allocatable[name] = less.DeepCopy()
		}
	}
	return capacity, allocatable
}

// declaredFeatures returns, sorted, the features that the scheduler and the API server require of a
// node before they bind or change certain pods (KEP-5328).
func declaredFeatures() []string {
	return []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
}

func (n *Node) info(l runtimeState) v1.NodeSystemInfo {
	m := n.config.Machine
	var swap *v1.NodeSwapStatus
	if m.SwapBytes > 0 {
		swap = &v1.NodeSwapStatus{Capacity: &m.SwapBytes}
	}
	return v1.NodeSystemInfo{
		MachineID: m.ID, SystemUUID: m.SystemUUID, BootID: m.BootID, KernelVersion: m.Kernel, OSImage: m.OS, KubeletVersion: Version,
		OperatingSystem: operatingSystem, Architecture: architecture, ContainerRuntimeVersion: cmp.Or(l.version, "unknown://unknown"),
		Swap: swap,
	}
}

func handlers(status *runtimeapi.StatusResponse) []v1.NodeRuntimeHandler {
	var all []v1.NodeRuntimeHandler
	for _, h := range status.RuntimeHandlers {
		f := h.GetFeatures()
		all = append(all, v1.NodeRuntimeHandler{Name: h.Name, Features: &v1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(f.GetRecursiveReadOnlyMounts()), UserNamespaces: new(f.GetUserNamespaces()),
		}})
	}
	slices.SortFunc(all, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func features(status *runtimeapi.StatusResponse) *v1.NodeFeatures {
	return &v1.NodeFeatures{SupplementalGroupsPolicy: new(status.GetFeatures().GetSupplementalGroupsPolicy())}
}

// setConditions writes the node's conditions: first the pressures, then Ready.
func (n *Node) setConditions(s *v1.NodeStatus, notReady string) {
	pressure := n.config.Pressure()
	if len(pressure) == 0 { // no observation yet
		pressure = noPressure()
	}
	for _, c := range pressure {
		setCondition(s, c.Type, c.Status, c.Reason, c.Message)
	}
	if notReady != "" {
		setCondition(s, v1.NodeReady, v1.ConditionFalse, "KubeletNotReady", notReady)
		return
	}
	setCondition(s, v1.NodeReady, v1.ConditionTrue, "KubeletReady", "podsync runs pods")
}

// noPressure returns the conditions of a node without pressure.
func noPressure() []v1.NodeCondition {
	return eviction.Decide(eviction.Rules{}, eviction.State{}, time.Now()).Conditions
}

// setCondition sets one condition. It keeps the transition time if the status has not changed.
func setCondition(s *v1.NodeStatus, kind v1.NodeConditionType, status v1.ConditionStatus, reason, message string) {
	now := metav1.NewTime(time.Now())
	next := v1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	for i := range s.Conditions {
		if s.Conditions[i].Type != kind {
			continue
		}
		if s.Conditions[i].Status == status {
			next.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		s.Conditions[i] = next
		return
	}
	s.Conditions = append(s.Conditions, next)
}
