package devices

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Choose allocates the devices of a container before the container starts, and the status then shows their health. It
// calls only Allocate of the plugin, and does not wait for devices that are unavailable.
func TestDevicesAreChosenEarly(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.options = &pluginapi.DevicePluginOptions{PreStartRequired: true}
	p.start("a", "b!")
	r.counts(card, 2, 1)
	pod, other := podOf("web", map[string]int64{card: 1}), podOf("other", map[string]int64{card: 1})
	must.Do(t, r.Choose(t.Context(), pod, containerOf(pod, "app")))
	want := map[string][]v1.ResourceStatus{"app": {{Name: card, Resources: []v1.ResourceHealth{{ResourceID: "a", Health: v1.ResourceHealthStatusHealthy}}}}}
	if got := r.Devices(pod); !reflect.DeepEqual(got, want) {
		t.Errorf("devices are %v, want %v", got, want)
	}
	if got := p.journal(); got != "allocate[a]" {
		t.Errorf("the plugin was asked %s", got)
	}
	r.given(pod, "app", card, "a")
	if got := p.journal(); got != "prestart[a]" {
		t.Errorf("at the start the plugin was asked %s", got)
	}
	r.waitTimeout = patience
	if err := r.Choose(t.Context(), other, containerOf(other, "app")); err == nil || len(r.Devices(other)) > 0 {
		t.Errorf("a device of another container was allocated: %v, %v", r.Devices(other), err)
	}
	none := podOf("none", nil)
	must.Do(t, r.Choose(t.Context(), none, containerOf(none, "app")))
	if kept, err := r.KeptPods(); err != nil || len(kept) != 1 {
		t.Errorf("KeptPods: %v, %v", kept, err)
	}
}

// A plugin that registers and reports no device has a resource with zero devices.
func TestPluginThatReportsNothing(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.serve()
	close(p.closing)
	must.Do(t, p.register(pluginapi.Version))
	r.counts(card, 0, 0)
	r.refused(podOf("web", map[string]int64{card: 1}), "app", card)
}
