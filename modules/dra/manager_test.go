package dra

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/podsync/podsync/modules/dra/dratest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A claim of two pods is prepared once, and unprepared after the last one. Restarts of containers and of the agent need neither the
// claim nor its drivers.
func TestClaimIsPreparedOnce(t *testing.T) {
	for _, older := range []bool{false, true} {
		r := newRig(t, claimOf("shared", []string{gpu, nic}, "a", "b"))
		g, n := &dratest.Driver{Name: gpu, Older: older}, &dratest.Driver{Name: nic}
		r.start(g, n)
		a, b := podOf("a", "shared"), podOf("b", "shared")
		must.Do(t, r.m.PreparePod(t.Context(), a))
		must.Do(t, r.m.PreparePod(t.Context(), b))
		want := []string{gpu + "/device=uid-shared", nic + "/device=uid-shared"}
		allocated := func() {
			t.Helper()
			for _, pod := range []*v1.Pod{a, b} {
				if given, err := r.m.Allocate(t.Context(), pod, &pod.Spec.Containers[0]); err != nil || !slices.Equal(given.CDIDevices, want) {
					t.Errorf("pod %s gets %v, %v, want %v", pod.Name, given.CDIDevices, err, want)
				}
			}
		}
		allocated()
		g.Stop()
		n.Stop()
		r.claims = nil
		r.agent()
		allocated()
		must.Do(t, r.m.PreparePod(t.Context(), a)) // the sandbox of the pod is replaced
		if kept := must.Get(r.m.KeptPods())(t); !slices.Equal(kept, []types.UID{"a", "b"}) {
			t.Errorf("kept are %v", kept)
		}
		must.Do(t, r.m.UnpreparePod(t.Context(), "a"))
		if err := r.m.UnpreparePod(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "DRA driver "+gpu+" is not registered") {
			t.Errorf("without drivers: %v", err)
		}
		r.start(g, n)
		must.Do(t, r.m.RemovePod(t.Context(), "b"))
		for _, d := range []*dratest.Driver{g, n} {
			if got := d.Calls(); !slices.Equal(got, []string{"prepare uid-shared", "unprepare uid-shared"}) || len(d.Prepared()) > 0 {
				t.Errorf("%s: %v", d.Name, got)
			}
		}
		if r.files() > 0 || len(r.m.claims) > 0 {
			t.Errorf("%d files and %d claims are left", r.files(), len(r.m.claims))
		}
	}
}

// After a reboot claims are prepared again, because their devices were lost.
func TestRebootPreparesAgain(t *testing.T) {
	r := newRig(t, claimOf("c", []string{gpu}, "a"))
	g := &dratest.Driver{Name: gpu}
	r.start(g)
	must.Do(t, r.m.PreparePod(t.Context(), podOf("a", "c")))
	record := r.m.claims["uid-c"].record
	must.Do(t, record.write(r.state(), "another boot"))
	r.agent(g)
	must.Do(t, r.m.PreparePod(t.Context(), podOf("a", "c")))
	must.Do(t, r.m.PreparePod(t.Context(), podOf("a", "c")))
	if got := g.Calls(); len(got) != 2 {
		t.Errorf("calls %v, want two", got)
	}
}

// A pod does not start with a claim that it may not use, and no driver is called for it.
func TestRefusedClaims(t *testing.T) {
	made := func(change func(*v1.Pod, *resourcev1.ResourceClaim)) (*v1.Pod, *resourcev1.ResourceClaim) {
		pod, claim := podOf("a", "c"), claimOf("c", []string{gpu}, "a")
		change(pod, claim)
		return pod, claim
	}
	template := func(p *v1.Pod) {
		p.Spec.ResourceClaims[0].ResourceClaimName, p.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil, new("t")
	}
	for want, change := range map[string]func(*v1.Pod, *resourcev1.ResourceClaim){
		"failed to fetch ResourceClaim c referenced by pod a": func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.Name = "other" },
		"ResourceClaim c is not allocated":                    func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.Status.Allocation = nil },
		"pod a (a) is not allowed to use ResourceClaim c":     func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "b" },
		"pod claim the-c: ResourceClaim not created yet":      func(p *v1.Pod, _ *resourcev1.ResourceClaim) { template(p) },
		"ResourceClaim c was not created for pod a": func(p *v1.Pod, _ *resourcev1.ResourceClaim) {
			template(p)
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "the-c", ResourceClaimName: new("c")}}
		},
		"neither resourceClaimName nor":                func(p *v1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.ResourceClaims[0].ResourceClaimName = nil },
		`container "app" uses the claim "none"`:        func(p *v1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.Containers[0].Resources.Claims[0].Name = "none" },
		"DRA driver nic.example.com is not registered": func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = nic },
		`driver name "../x" is invalid`:                func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "../x" },
		`metadata.uid`:                                 func(_ *v1.Pod, c *resourcev1.ResourceClaim) { c.UID = "../x" },
		"more than 256": func(p *v1.Pod, _ *resourcev1.ResourceClaim) {
			for i := range 300 {
				name := fmt.Sprint(i)
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: name, ResourceClaimName: new("c")})
				p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: name})
			}
		},
	} {
		pod, claim := made(change)
		r := newRig(t, claim)
		g := &dratest.Driver{Name: gpu}
		r.start(g)
		_, err := r.m.Allocate(t.Context(), pod, &pod.Spec.Containers[0])
		if err == nil || !strings.Contains(err.Error(), want) || len(g.Calls()) > 0 {
			t.Errorf("error %v, want %q", err, want)
		}
		must.Do(t, r.m.RemovePod(t.Context(), "a")) // no driver was called, so none must be there for the end
		if r.files() > 0 {
			t.Errorf("%s: records are left", want)
		}
	}
}

// Claims of templates and of extended resources give containers the devices of their requests.
func TestRequests(t *testing.T) {
	claim, extended := claimOf("made", []string{gpu}, "a"), claimOf("extended", []string{gpu}, "a")
	for _, c := range []*resourcev1.ResourceClaim{claim, extended} {
		c.OwnerReferences = []metav1.OwnerReference{{UID: "a", Controller: new(true)}}
	}
	r := newRig(t, claim, extended)
	g := &dratest.Driver{Name: gpu, Prepare: func(c *drav1.Claim) *drav1.NodePrepareResourceResponse {
		return &drav1.NodePrepareResourceResponse{Devices: []*drav1.Device{
			{RequestNames: []string{"one"}, PoolName: "p", DeviceName: "d1", CdiDeviceIds: []string{"v/c=" + c.Name + "1"}},
			{RequestNames: []string{"two/first"}, PoolName: "p", DeviceName: "d2", CdiDeviceIds: []string{"v/c=" + c.Name + "2", "v/c=all"}},
		}}
	}}
	r.start(g)
	pod := podOf("a")
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: new("t")}, {Name: "unneeded", ResourceClaimTemplateName: new("t")}, {Name: "unused", ResourceClaimName: new("missing")}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: new("made")}, {Name: "unneeded"}}
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended", RequestMappings: []v1.ContainerExtendedResourceRequest{{ContainerName: "last", ResourceName: "x.com/x", RequestName: "one"}}}
	using := func(name string, claims ...v1.ResourceClaim) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Claims: claims}}
	}
	pod.Spec.InitContainers = []v1.Container{using("init", v1.ResourceClaim{Name: "c", Request: "two"})}
	pod.Spec.Containers = []v1.Container{using("all", v1.ResourceClaim{Name: "c"}, v1.ResourceClaim{Name: "c", Request: "two"}, v1.ResourceClaim{Name: "unneeded"}), using("none"), using("last")}
	for _, restarted := range []bool{false, true} {
		if restarted { // the next agent may have the pod without its status
			r.agent()
			pod.Status = v1.PodStatus{ResourceClaimStatuses: pod.Status.ResourceClaimStatuses}
		}
		for name, want := range map[string][]string{"init": {"v/c=made2", "v/c=all"}, "all": {"v/c=made1", "v/c=made2", "v/c=all"}, "none": nil, "last": {"v/c=extended1"}} {
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				if c.Name != name {
					continue
				}
				if given, err := r.m.Allocate(t.Context(), pod, &c); err != nil || !slices.Equal(given.CDIDevices, want) {
					t.Errorf("%s gets %v, %v, want %v", name, given.CDIDevices, err, want)
				}
			}
		}
	}
	var names []string
	for _, s := range slices.Concat(r.m.Devices(pod)["all"], r.m.Devices(pod)["last"]) {
		names = append(names, fmt.Sprint(s.Name, len(s.Resources)))
	}
	if want := []string{"claim:c2", "claim:c/two1", "claim:extended/one1"}; !slices.Equal(names, want) {
		t.Errorf("statuses %v, want %v", names, want)
	}
	if got := g.Calls(); len(got) != 2 {
		t.Errorf("calls %v", got)
	}
}

// Hostile, wrong and slow answers are errors of a bounded length, and the claim is unprepared at the end.
func TestHostileDrivers(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	devices := func(n int, d *drav1.Device) func(*drav1.Claim) *drav1.NodePrepareResourceResponse {
		return func(*drav1.Claim) *drav1.NodePrepareResourceResponse {
			return &drav1.NodePrepareResourceResponse{Devices: slices.Repeat([]*drav1.Device{d}, n)}
		}
	}
	for want, d := range map[string]*dratest.Driver{
		"skipped ResourceClaim c": {Prepare: func(*drav1.Claim) *drav1.NodePrepareResourceResponse { return nil }},
		"unknown claim UID":       {Answer: func(resp *drav1.NodePrepareResourcesResponse) { resp.Claims[long] = nil }},
		"failed for ResourceClaim c": {Prepare: func(*drav1.Claim) *drav1.NodePrepareResourceResponse {
			return &drav1.NodePrepareResourceResponse{Error: long}
		}},
		"NodePrepareResources of driver gpu.example.com: rpc error": {Called: func(_ context.Context, method string, _ bool) error {
			if method == "NodePrepareResources" {
				return fmt.Errorf("%.10000s", long)
			}
			return nil
		}},
		"larger than max":        {Prepare: devices(1, &drav1.Device{PoolName: strings.Repeat(long, 5)})},
		"more than 256":          {Prepare: devices(60000, &drav1.Device{})},
		"want at most 512":       {Prepare: devices(1, &drav1.Device{PoolName: long})},
		"more than 64":           {Prepare: devices(1, &drav1.Device{CdiDeviceIds: slices.Repeat([]string{"a/b=c"}, 65)})},
		`cdiDevices[0] is "gpu"`: {Prepare: devices(1, &drav1.Device{CdiDeviceIds: []string{"gpu"}})},
		"more than 24576":        {Prepare: devices(100, &drav1.Device{DeviceName: strings.Repeat("x", 500)})},
		"DeadlineExceeded": {Called: func(ctx context.Context, method string, _ bool) error {
			if method == "NodePrepareResources" {
				<-ctx.Done()
			}
			return ctx.Err()
		}},
	} {
		d.Name = gpu
		r := newRig(t, claimOf("c", []string{gpu}, "a"))
		r.start(d)
		if want == "DeadlineExceeded" {
			r.m.callTimeout = 10 * time.Millisecond
		}
		err := r.m.PreparePod(t.Context(), podOf("a", "c"))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2048 {
			t.Errorf("error of %d bytes: %.300v, want %q", len(fmt.Sprint(err)), err, want)
		}
		r.m.callTimeout = callTimeout
		must.Do(t, r.m.RemovePod(t.Context(), "a"))
		if len(d.Prepared()) > 0 || r.files() > 0 {
			t.Errorf("%s: %v is prepared, and %d records are left", want, d.Prepared(), r.files())
		}
	}
}

// A claim that was deleted and made again waits until the old one is unprepared.
func TestClaimOfTheSameName(t *testing.T) {
	r := newRig(t, claimOf("c", []string{gpu}, "a"))
	r.start(&dratest.Driver{Name: gpu})
	must.Do(t, r.m.PreparePod(t.Context(), podOf("a", "c")))
	next := claimOf("c", []string{gpu}, "b")
	next.UID = "next"
	r.claims[0] = next
	if err := r.m.PreparePod(t.Context(), podOf("b", "c")); err == nil || !strings.Contains(err.Error(), "old ResourceClaim with same name c and different UID uid-c still exists") {
		t.Errorf("error %v", err)
	}
	must.Do(t, r.m.UnpreparePod(t.Context(), "a"))
	must.Do(t, r.m.PreparePod(t.Context(), podOf("b", "c")))
}

// The health that a driver reports is in statuses, until it expires or the driver leaves. A driver that registers wakes the pods
// that wait for it.
func TestHealth(t *testing.T) {
	r := newRig(t, claimOf("c", []string{gpu}, "a"))
	g := &dratest.Driver{Name: gpu}
	must.Do(t, g.Start(r.dir))
	r.agent(g)
	changed := make(chan types.UID, 100)
	r.m.Notify(func(uid types.UID) { changed <- uid })
	pod := podOf("a", "c")
	must.Do(t, r.m.PreparePod(t.Context(), pod))
	check := func(health v1.ResourceHealthStatus, message string) {
		t.Helper()
		if uid := <-changed; uid != "a" {
			t.Errorf("pod %s", uid)
		}
		want := v1.ResourceHealth{ResourceID: gpu + "/node/dev", Health: health}
		if message != "" {
			want.Message = &message
		}
		if got := r.m.Devices(pod); !reflect.DeepEqual(got, map[string][]v1.ResourceStatus{"app": {{Name: "claim:the-c", Resources: []v1.ResourceHealth{want}}}}) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	id := &healthv1.DeviceIdentifier{PoolName: "node", DeviceName: "dev"}
	g.Report(&healthv1.DeviceHealth{Device: id, Health: healthv1.HealthStatus_HEALTHY})
	check(v1.ResourceHealthStatusHealthy, "")
	g.Report(&healthv1.DeviceHealth{Device: id, Health: healthv1.HealthStatus_UNHEALTHY, Message: "hot"})
	check(v1.ResourceHealthStatusUnhealthy, "hot")
	g.Report(&healthv1.DeviceHealth{Device: id, Health: healthv1.HealthStatus_HEALTHY, LastUpdatedTime: 1})
	check(v1.ResourceHealthStatusUnknown, "")
	r.m.removed(r.dir + "/plugins_registry/" + gpu + ".sock")
	check(v1.ResourceHealthStatusUnknown, "")
}

// The reports of a driver are bounded, and an expired one counts as unknown.
func TestHealthIsBounded(t *testing.T) {
	now := time.Now()
	m := &Manager{claims: map[types.UID]*claim{}}
	d := &driver{name: gpu}
	var all []*healthv1.DeviceHealth
	for i := range maxHealths + 10 {
		all = append(all, &healthv1.DeviceHealth{Device: &healthv1.DeviceIdentifier{DeviceName: fmt.Sprint(i)}, Health: healthv1.HealthStatus_HEALTHY, Message: strings.Repeat("x", 10000), HealthCheckTimeoutSeconds: 60})
	}
	m.reported(d, all, now)
	h := d.health[deviceID{"", "0"}]
	if len(d.health) != maxHealths || len(h.message) > v1.ResourceHealthMessageMaxLength {
		t.Errorf("%d devices, a message of %d bytes", len(d.health), len(h.message))
	}
	if at := h.at(now.Add(59 * time.Second)).status; at != v1.ResourceHealthStatusHealthy {
		t.Errorf("before the timeout %s", at)
	}
	if at := h.at(now.Add(time.Minute)).status; at != v1.ResourceHealthStatusUnknown {
		t.Errorf("after the timeout %s", at)
	}
	m.reported(d, nil, now.Add(time.Minute))
	if len(d.health) > 0 {
		t.Errorf("%d devices are kept", len(d.health))
	}
}
