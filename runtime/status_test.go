package runtime

import (
	"slices"
	"testing"
	"time"
)

func TestLatest(t *testing.T) {
	late := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		containers []ContainerStatus
		want       string
	}{
		"highest attempt": {[]ContainerStatus{
			{ID: ContainerID{ID: "old"}, Attempt: 1}, {ID: ContainerID{ID: "new"}, Attempt: 2}, {ID: ContainerID{ID: "first"}},
		}, "new"},
		"not the last created (C2)": {[]ContainerStatus{
			{ID: ContainerID{ID: "dead"}, Attempt: 1, CreatedAt: late, State: ContainerExited},
			{ID: ContainerID{ID: "live"}, Attempt: 2, CreatedAt: late.Add(-time.Hour), State: ContainerRunning},
		}, "live"},
		"the first listed of equal ones": {[]ContainerStatus{
			{ID: ContainerID{ID: "first"}, State: ContainerExited}, {ID: ContainerID{ID: "second"}, State: ContainerCreated},
		}, "first"},
		"the running one of equal ones": {[]ContainerStatus{
			{ID: ContainerID{ID: "first"}, State: ContainerExited}, {ID: ContainerID{ID: "second"}, State: ContainerRunning},
		}, "second"},
		"the first listed of running ones": {[]ContainerStatus{
			{ID: ContainerID{ID: "first"}, State: ContainerRunning}, {ID: ContainerID{ID: "second"}, State: ContainerRunning},
		}, "first"},
	} {
		for i := range c.containers {
			c.containers[i].Name = "app"
		}
		s := &PodStatus{Containers: append([]ContainerStatus{{Name: "other", Attempt: 9}}, c.containers...)}
		if got := s.Latest("app"); got == nil || got.ID.ID != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestSandboxes(t *testing.T) {
	s := &PodStatus{
		Sandboxes: []SandboxStatus{
			{ID: "s1", Attempt: 1, State: SandboxReady},
			{ID: "s2", Attempt: 2, State: SandboxReady, Network: &SandboxNetwork{IPs: []string{"10.0.0.1", "fd00::1"}}},
			{ID: "s2b", Attempt: 2, State: SandboxReady},
		},
		Containers: []ContainerStatus{{Name: "a", SandboxID: "s2"}, {Name: "b", SandboxID: "s1"}, {Name: "c"}},
	}
	if got := s.LatestSandbox(); got.ID != "s2" {
		t.Errorf("latest sandbox %s, want s2", got.ID)
	}
	if got := s.IPs(); !slices.Equal(got, []string{"10.0.0.1", "fd00::1"}) {
		t.Errorf("IPs %v, want %q", got, []string{"10.0.0.1", "fd00::1"})
	}
	var in []string
	for _, c := range s.Containers {
		if c.In(s.ActiveSandbox()) {
			in = append(in, c.Name)
		}
	}
	if !slices.Equal(in, []string{"a", "c"}) {
		t.Errorf("in the active sandbox %v, want a and c, whose sandbox is not known", in)
	}
	s.Sandboxes[1].State = SandboxNotReady
	if s.ActiveSandbox() != nil || s.IPs() != nil {
		t.Error("a latest sandbox that is not ready is taken for active")
	}
	if s.Sandboxes = s.Sandboxes[:1]; s.IPs() != nil {
		t.Errorf("IPs %v of a sandbox without a network", s.IPs())
	}
}

func TestNilPodStatus(t *testing.T) {
	var s *PodStatus
	if s.Latest("a") != nil || s.LatestSandbox() != nil || s.ActiveSandbox() != nil || s.IPs() != nil {
		t.Error("a pod the runtime does not know has something")
	}
	var c *ContainerStatus
	if c.In(nil) || c.Live() || (&ContainerStatus{SandboxID: "s"}).In(nil) {
		t.Error("a missing container or sandbox is found")
	}
}

func TestContainerID(t *testing.T) {
	for text, ok := range map[string]bool{
		"containerd://abc": true, "cri-o://a://b": true, "": false, "abc": false, "://abc": false, "docker://": false,
	} {
		id, err := ParseContainerID(text)
		if (err == nil) != ok {
			t.Errorf("ParseContainerID(%q): error %v, want %v", text, err, ok)
		}
		if ok && id.String() != text {
			t.Errorf("%q prints as %q, want the same", text, id)
		}
		if !ok && !id.IsZero() {
			t.Errorf("ParseContainerID(%q) = %v beside an error", text, id)
		}
	}
	if s := (ContainerID{}).String(); s != "" {
		t.Errorf("the zero ID prints as %q", s)
	}
}

func TestStateWords(t *testing.T) {
	for want, s := range map[string]interface{ String() string }{
		"unknown": ContainerUnknown, "created": ContainerCreated, "running": ContainerRunning, "exited": ContainerExited,
		"not ready": SandboxNotReady, "ready": SandboxReady,
		"pod": NamespacePod, "container": NamespaceContainer, "node": NamespaceNode, "target": NamespaceTarget,
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for state, want := range map[ContainerState]bool{ContainerUnknown: true, ContainerCreated: true, ContainerRunning: true, ContainerExited: false} {
		if got := (&ContainerStatus{State: state}).Live(); got != want {
			t.Errorf("%v is live: %v, want %v", state, got, want)
		}
	}
}

// K6: a pod is alive while one of its containers runs, or may run, or one of its sandboxes is ready.
func TestK6_StatesThatCountAsAlive(t *testing.T) {
	for name, tc := range map[string]struct {
		status *PodStatus
		want   bool
	}{
		"unknown pod": {nil, false},
		"nothing":     {&PodStatus{}, false},
		"dead":        {&PodStatus{Containers: []ContainerStatus{{State: ContainerExited}}, Sandboxes: []SandboxStatus{{}}}, false},
		"a container": {&PodStatus{Containers: []ContainerStatus{{State: ContainerExited}, {State: ContainerUnknown}}, Sandboxes: []SandboxStatus{{}}}, true},
		"a sandbox":   {&PodStatus{Sandboxes: []SandboxStatus{{}, {State: SandboxReady}}}, true},
	} {
		if got := tc.status.Live(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
