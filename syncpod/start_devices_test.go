package syncpod

import (
	"reflect"
	"testing"

	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/device"
)

func TestWithEnv(t *testing.T) {
	a := device.Allocation{Env: map[string]string{"B": "device", "A": "device", "C": "device"}}
	got := withDevices(a, []env.Var{{Name: "Z", Value: "spec"}, {Name: "B", Value: "spec"}})
	want := []env.Var{{Name: "A", Value: "device"}, {Name: "C", Value: "device"}, {Name: "Z", Value: "spec"}, {Name: "B", Value: "spec"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("variables are %v, want %v", got, want)
	}
}
