package statusjson_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/base/statusjson"
	"github.com/podsync/podsync/runtime"
)

// full is a status with all that there is, and each state.
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
			Reason: "Error", Message: "why", CreatedAt: at, StartedAt: at.Add(1), FinishedAt: at.Add(2), Image: "app:1", ImageID: "sha256:1", ImageRef: "app@sha256:1",
			Resources: &runtime.ContainerResources{CPURequest: 1, CPULimit: 2, MemoryRequest: 3, MemoryLimit: 4},
			Reported:  &runtime.ReportedResources{CPURequest: new(int64(1)), CPULimit: new(int64(2)), MemoryRequest: new(int64(3)), MemoryLimit: new(int64(4))},
			User:      &runtime.ContainerUser{UID: 1, GID: 2, Groups: []int64{3}}, StopSignal: "SIGINT",
		})
	}
	return s
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, want := range []*runtime.PodStatus{full(), {UID: "u", Name: "web", Namespace: "default"}} {
		text, err := json.Marshal(statusjson.OfPod(want))
		if err != nil {
			t.Fatal(err)
		}
		var read statusjson.Pod
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
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

// What a later version has written is not taken for anything else.
func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
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
