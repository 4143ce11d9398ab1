package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// Version is the version of a kubelet that pods can expect the behaviour of.
const Version = "v1.36.2+podsync"

// maxImageNames is how many names an image has in a status at most.
const maxImageNames = 5

// describe writes the status of the node as it is now.
func (n *Node) describe(ctx context.Context, object *v1.Node) {
	s := &object.Status
	s.Capacity, s.Allocatable = n.config.Capacity.DeepCopy(), n.config.Allocatable.DeepCopy()
	s.Addresses = n.addresses()
	s.DaemonEndpoints.KubeletEndpoint.Port = n.config.Port
	s.DeclaredFeatures = declaredFeatures()
	s.NodeInfo = n.info(ctx)
	if images, err := n.images(ctx); err == nil {
		s.Images = images
	}
	status, err := n.config.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err == nil {
		s.RuntimeHandlers, s.Features = handlers(status), features(status)
	}
	n.setConditions(s, notReady(status, err))
}

// declaredFeatures are those of pods that are only bound to a node, or changed on it, which
// declares them (KEP-5328), in order.
func declaredFeatures() []string {
	return []string{"InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
}

func (n *Node) addresses() []v1.NodeAddress {
	var all []v1.NodeAddress
	for _, ip := range n.config.IPs {
		all = append(all, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: n.config.Name})
}

func (n *Node) info(ctx context.Context) v1.NodeSystemInfo {
	m := n.config.Machine
	info := v1.NodeSystemInfo{
		MachineID: m.ID, SystemUUID: m.SystemUUID, BootID: m.BootID, KernelVersion: m.Kernel, OSImage: m.OS,
		OperatingSystem: operatingSystem, Architecture: architecture, KubeletVersion: Version, ContainerRuntimeVersion: "unknown://unknown",
	}
	if v, err := n.config.Runtime.Version(ctx, &runtimeapi.VersionRequest{}); err == nil {
		info.ContainerRuntimeVersion = v.RuntimeName + "://" + v.RuntimeVersion
	}
	return info
}

// images are the largest that the runtime has.
func (n *Node) images(ctx context.Context) ([]v1.ContainerImage, error) {
	list, err := n.config.Runtime.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	var images []v1.ContainerImage
	for _, image := range list.Images {
		names := slices.Concat(image.RepoDigests, image.RepoTags)
		images = append(images, v1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(image.Size)})
	}
	slices.SortStableFunc(images, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if most := *n.config.MaxImages; most >= 0 {
		images = images[:min(len(images), most)]
	}
	return images, nil
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

// notReady says why a runtime cannot run pods, "" if it can.
func notReady(status *runtimeapi.StatusResponse, err error) string {
	if err != nil {
		return "container runtime is down: " + err.Error()
	}
	ready := map[string]bool{}
	for _, c := range status.GetStatus().GetConditions() {
		ready[c.Type] = c.Status
		if !c.Status && (c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady) {
			return "container runtime: " + c.Type + " is not true: reason " + c.Reason + ": " + c.Message
		}
	}
	for _, t := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if !ready[t] {
			return "container runtime does not report " + t
		}
	}
	return ""
}

// setConditions writes the conditions of the node, the pressures before whether it is ready.
func (n *Node) setConditions(s *v1.NodeStatus, notReady string) {
	pressure := n.config.Pressure()
	if len(pressure) == 0 { // nobody has looked yet
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

// noPressure are the conditions of a node that is short of nothing.
func noPressure() []v1.NodeCondition {
	return eviction.Decide(eviction.Rules{}, eviction.State{}, time.Now()).Conditions
}

// setCondition writes one condition. When it changed last is kept if it has not now.
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
