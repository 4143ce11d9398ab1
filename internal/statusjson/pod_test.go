package statusjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/statusjson"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// full returns a status with all fields, and with each state.
func full() *runtime.PodStatus {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	s := &runtime.PodStatus{UID: "u", Name: "web", Namespace: "default"}
	for _, mode := range []runtime.NamespaceMode{runtime.NamespacePod, runtime.NamespaceContainer, runtime.NamespaceNode, runtime.NamespaceTarget} {
		s.Sandboxes = append(s.Sandboxes, runtime.SandboxStatus{ID: mode.String(), State: runtime.SandboxReady, NetworkMode: mode, Attempt: 3, CreatedAt: at, RuntimeHandler: "kata"})
	}
	s.Sandboxes[0].Network = &runtime.SandboxNetwork{IPs: []string{"10.0.0.1", "fd00::1"}}
	s.Sandboxes[1].Network = &runtime.SandboxNetwork{}
	s.Sandboxes[2].State = runtime.SandboxNotReady
	for _, state := range []runtime.ContainerState{runtime.ContainerUnknown, runtime.ContainerCreated, runtime.ContainerRunning, runtime.ContainerExited} {
		s.Containers = append(s.Containers, runtime.ContainerStatus{
			Name: "app", State: state, Attempt: 7, ExitCode: 3, SpecHash: 1 << 63, SandboxID: "pod", ID: runtime.ContainerID{Type: "containerd", ID: state.String()},
			Reason: "Error", Message: "why", CreatedAt: at, StartedAt: at.Add(1), FinishedAt: at.Add(2), Image: "app:1", ImageID: "sha256:1", ImageRef: "app@sha256:1", ImageVolumes: "sha256:2",
			Resources: &runtime.ContainerResources{CPURequest: 1, CPULimit: 2, MemoryRequest: 3, MemoryLimit: 4},
			CPUSet:    &runtime.CPUSet{CPUs: "1", Mems: "0", Exclusive: true},
			Reported:  &runtime.ReportedResources{CPURequest: new(int64(1)), CPULimit: new(int64(2)), MemoryRequest: new(int64(3)), MemoryLimit: new(int64(4))},
			User:      &runtime.ContainerUser{UID: 1, GID: 2, Groups: []int64{3}}, StopSignal: "SIGINT",
		})
	}
	return s
}

func TestWrittenFilesAreRead(t *testing.T) {
	for _, want := range []*runtime.PodStatus{full(), {UID: "u", Name: "web", Namespace: "default"}} {
		text := must.Get(json.Marshal(statusjson.OfPod(want)))(t)
		var read statusjson.Pod
		must.Do(t, json.Unmarshal(text, &read))
		if got := read.Status(want.UID, want.Namespace, want.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as\n%+v, want\n%+v", text, got, want)
		}
	}
	for _, v := range []any{full().Sandboxes[0], full().Containers[3]} {
		value := reflect.ValueOf(v)
		for i := range value.NumField() {
			if value.Field(i).IsZero() && value.Type().Field(i).Name != "NetworkMode" {
				t.Errorf("%T.%s is not part of the test", v, value.Type().Field(i).Name)
			}
		}
	}
}

// TestNamesOfFields: the types of package runtime that are written as they are keep the names that
// earlier versions have written.
func TestNamesOfFields(t *testing.T) {
	c, sb := full().Containers[3], full().Sandboxes[0]
	for want, v := range map[string]any{
		`{"cpuRequest":1,"cpuLimit":2,"memoryRequest":3,"memoryLimit":4}`: c.Resources,
		`{"cpuRequest":1,"cpuLimit":2,"memoryLimit":4,"memoryRequest":3}`: c.Reported,
		`{"cpus":"1","mems":"0","exclusive":true}`:                        c.CPUSet,
		`{"uid":1,"gid":2,"groups":[3]}`:                                  c.User,
		`{"ips":["10.0.0.1","fd00::1"]}`:                                  sb.Network,
	} {
		var got, wanted any
		text, err := json.Marshal(v)
		must.Do(t, errors.Join(err, json.Unmarshal(text, &got), json.Unmarshal([]byte(want), &wanted)))
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%T is written as %s, want %s", v, text, want)
		}
		if fields := reflect.TypeOf(v).Elem().NumField(); fields != len(wanted.(map[string]any)) {
			t.Errorf("%T has %d fields: each needs a name here", v, fields)
		}
	}
}

// Values of a later version are not mistaken for others.
func TestUnknownFiguresAreOmitted(t *testing.T) {
	var read statusjson.Pod
	err := json.Unmarshal([]byte(`{"sandboxes":[{"id":"a","state":"paused","networkMode":"pod"},{"id":"b","state":"ready","networkMode":"none"},{"id":"c","state":"ready","networkMode":"pod"}],
		"containers":[{"id":"d","state":"paused"},{"id":"e","state":"running"},{"id":"f"}]}`), &read)
	if err != nil {
		t.Fatal(err)
	}
	s := read.Status("u", "default", "web")
	if len(s.Sandboxes) != 1 || s.Sandboxes[0].ID != "c" || len(s.Containers) != 1 || s.Containers[0].ID.ID != "e" {
		t.Errorf("it is read as %+v", s)
	}
}
