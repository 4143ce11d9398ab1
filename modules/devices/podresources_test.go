package devices

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/podsync/podsync/runtime/cri/critest/must"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
)

// pins gives container app of pod web the CPUs 1 and 2, and memory of two NUMA nodes.
type pins struct{}

func (pins) CPUs(pod types.UID, container string) cpu.Set {
	if pod != "uid-web" || container != "app" {
		return cpu.Set{}
	}
	set, _ := cpu.SetOf(1, 2)
	return set
}

func (pins) Memory(pod types.UID, container string) []numamemory.Block {
	if pod != "uid-web" || container != "app" {
		return nil
	}
	return []numamemory.Block{{Nodes: 3, Resource: v1.ResourceMemory, Size: 64}}
}

func (pins) Allocatable() (cpu.Set, []numamemory.Block) {
	set, _ := cpu.SetOf(1, 2, 3)
	return set, []numamemory.Block{{Nodes: 1, Resource: v1.ResourceMemory, Size: 99}}
}

// Monitoring tools list the devices of each container, once for each NUMA node, and all allocatable devices. Finished
// pods and finished init containers are not listed.
func TestPodResources(t *testing.T) {
	r := newRig(t)
	r.plugin(card).start("a", "b-numa", "c!")
	r.counts(card, 3, 2)
	web, over := podOf("web", map[string]int64{card: 2}), podOf("over", nil)
	over.Status.Phase = v1.PodSucceeded
	side := v1.Container{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways)}
	web.Spec.InitContainers = []v1.Container{{Name: "init"}, side}
	r.given(web, "app", card, "a b-numa")
	first := podOf("first", nil)

	listener := must.Get(net.Listen("unix", filepath.Join(r.dir, "pod-resources")))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.ServePodResources(ctx, listener, func() []*v1.Pod { return []*v1.Pod{web, over, first} }, pins{})
	}()
	conn := must.Get(grpc.NewClient("unix://"+filepath.Join(r.dir, "pod-resources"), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)

	const webs = "ns/web side[] app[vendor.test/card a [], vendor.test/card b-numa [0], vendor.test/card b-numa [1]]"
	list := must.Get(client.List(t.Context(), &podresources.ListPodResourcesRequest{}))(t)
	if got := words(list.GetPodResources()...); got != "ns/first app[]; "+webs {
		t.Errorf("List has %s", got)
	}
	alpha := must.Get(v1alpha1.NewPodResourcesListerClient(conn).List(t.Context(), &v1alpha1.ListPodResourcesRequest{}))(t)
	const alphas = "ns/first app[]; ns/web app[vendor.test/card a, vendor.test/card b-numa, vendor.test/card b-numa]"
	if got := alphaWords(alpha.GetPodResources()); got != alphas {
		t.Errorf("List of v1alpha1 has %s", got)
	}
	got := must.Get(client.Get(t.Context(), &podresources.GetPodResourcesRequest{PodNamespace: "ns", PodName: "web"}))(t)
	if got := words(got.GetPodResources()); got != webs {
		t.Errorf("Get has %s", got)
	}
	app := got.GetPodResources().GetContainers()[1]
	if c := fmt.Sprint(app.GetCpuIds(), app.GetMemory()[0].GetMemoryType(), app.GetMemory()[0].GetSize(), len(app.GetMemory()[0].GetTopology().GetNodes())); c != "[1 2]memory64 2" {
		t.Errorf("the container has %s", c)
	}
	if side := got.GetPodResources().GetContainers()[0]; len(side.GetCpuIds())+len(side.GetMemory()) > 0 {
		t.Errorf("a container of the shared CPUs has %v", side)
	}
	for _, name := range []string{"over", "none"} {
		if _, err := client.Get(t.Context(), &podresources.GetPodResourcesRequest{PodNamespace: "ns", PodName: name}); status.Code(err) != codes.NotFound {
			t.Errorf("Get of %s: %v", name, err)
		}
	}
	all := must.Get(client.GetAllocatableResources(t.Context(), &podresources.AllocatableResourcesRequest{}))(t)
	if got := deviceWords(all.GetDevices()); got != "vendor.test/card a [], vendor.test/card b-numa [0], vendor.test/card b-numa [1]" {
		t.Errorf("allocatable: %s", got)
	}
	if len(all.GetCpuIds()) != 3 || len(all.GetMemory()) != 1 {
		t.Errorf("allocatable are the CPUs %v and the memory %v", all.GetCpuIds(), all.GetMemory())
	}
	cancel()
	must.Do(t, <-ended)
	pods := func() []*v1.Pod { return nil }
	if err := r.ServePodResources(t.Context(), listener, pods, nil); err == nil {
		t.Error("no error for a closed listener")
	}
	if err := r.ServePodResources(t.Context(), nil, pods, nil); err == nil || err.Error() != "devices: ServePodResources: listener is nil" {
		t.Errorf("without a listener: %v", err)
	}
	if err := r.ServePodResources(t.Context(), listener, nil, nil); err == nil || err.Error() != "devices: ServePodResources: pods is nil" {
		t.Errorf("without pods: %v", err)
	}
}

func words(pods ...*podresources.PodResources) string {
	var all []string
	for _, p := range pods {
		text := p.GetNamespace() + "/" + p.GetName()
		for _, c := range p.GetContainers() {
			text += " " + c.GetName() + "[" + deviceWords(c.GetDevices()) + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func alphaWords(pods []*v1alpha1.PodResources) string {
	var all []string
	for _, p := range pods {
		text := p.GetNamespace() + "/" + p.GetName()
		for _, c := range p.GetContainers() {
			var devices []string
			for _, d := range c.GetDevices() {
				devices = append(devices, d.GetResourceName()+" "+strings.Join(d.GetDeviceIds(), " "))
			}
			text += " " + c.GetName() + "[" + strings.Join(devices, ", ") + "]"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func deviceWords(devices []*podresources.ContainerDevices) string {
	var all []string
	for _, d := range devices {
		var nodes []string
		for _, n := range d.GetTopology().GetNodes() {
			nodes = append(nodes, string(rune('0'+n.GetID())))
		}
		all = append(all, d.GetResourceName()+" "+strings.Join(d.GetDeviceIds(), " ")+" ["+strings.Join(nodes, " ")+"]")
	}
	return strings.Join(all, ", ")
}
