package critest

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// No request may panic a handler: a panic ends the whole test binary.
func TestEmptyRequests(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.runs("uid", "serve")
		for _, client := range []any{n.rt, n.img} {
			v := reflect.ValueOf(client)
			for i := range v.NumMethod() {
				m := v.Method(i)
				if m.Type().In(1).Kind() != reflect.Pointer || m.Type().Out(0).Kind() != reflect.Pointer {
					continue // a stream
				}
				out := m.Call([]reflect.Value{reflect.ValueOf(n.Context()), reflect.New(m.Type().In(1).Elem())})
				if err, _ := out[1].Interface().(error); status.Code(err) == codes.Internal {
					n.Errorf("%s: %v, want not %v", v.Type().Method(i).Name, err, codes.Internal)
				}
			}
		}
	})
}

func TestErrorsOfBadRequestsNameTheFault(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		_, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "no-uid", Namespace: "default"},
		}})
		n.code(err, codes.InvalidArgument)
		for _, req := range []*runtimeapi.CreateContainerRequest{
			{PodSandboxId: sandbox, SandboxConfig: podConfig("uid")},
			{PodSandboxId: sandbox, Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"}}},
		} {
			_, err := n.rt.CreateContainer(n.Context(), req)
			n.code(err, codes.InvalidArgument)
		}
		if len(n.containers()) != 0 {
			n.Error("something was made")
		}
	})
}

func TestNothingPanicsOnNil(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		n.setCondition(nil)
		n.OnCall(nil)()
		n.CrashAfter(1, nil)
		if n.Serve(nil) == nil || n.EditContainer(id, nil) == nil || n.EditSandbox(sandbox, nil) == nil {
			n.Error("nil was taken")
		}
		_, err := n.rt.Status(n.Context(), &runtimeapi.StatusRequest{Verbose: true})
		n.ok(err)
	})
}

// The runtime neither modifies nor keeps the memory of its caller.
func TestConfigIsTheCallers(t *testing.T) {
	auth := &runtimeapi.AuthConfig{Username: "u"}
	lent := func() Config {
		return Config{
			Images:   []Image{{Name: "app", Entrypoint: []string{"serve"}, Env: map[string]string{"A": "1"}}},
			Registry: []RemoteImage{{Image: Image{Name: "far"}, Credentials: []*runtimeapi.AuthConfig{auth}}},
			Latency:  map[Method]time.Duration{version: time.Second},
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
			Handlers: []string{"kata"},
		}
	}
	cfg := lent()
	onBubble(t, cfg, func(n *node) {
		cfg.Images[0].Entrypoint[0] = "false"
		cfg.Latency[version] = time.Hour
		cfg.Handlers[0] = "other"
		auth.Username = "v"
		if took := after(func() { _, _ = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{}) }); took != time.Second {
			n.Errorf("latency %v, want %v", took, time.Second)
		}
		_, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: podConfig("uid"), RuntimeHandler: "kata"})
		n.ok(err)
		_, err = n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: "far"}, Auth: &runtimeapi.AuthConfig{Username: "u"},
		})
		n.ok(err)
	})
	auth.Username = "u"
	untouched, again := lent(), lent()
	if r, err := New(untouched); err != nil || r.Close() != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(untouched, again) {
		t.Error("New wrote to its config")
	}
}

// Responses are copies: modifying them does not change the runtime.
func TestAnswersAreCopies(t *testing.T) {
	r, err := New(Config{Images: []Image{{Name: "app"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := service{Runtime: r}
	config := podConfig("uid")
	before := proto.CloneOf(config)
	resp, err := s.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	look := func() *runtimeapi.PodSandboxStatus {
		st, err := s.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: resp.GetPodSandboxId()})
		if err != nil {
			t.Fatal(err)
		}
		return st.GetStatus()
	}
	look().Labels["changed"] = "yes"
	look().Metadata.Name = "changed"
	if st := look(); st.GetLabels()["changed"] != "" || st.GetMetadata().GetName() != "web" || !proto.Equal(config, before) {
		t.Errorf("%v, %v, want %q and Name %q and %v", st, config, "", "web", before)
	}
}

func TestRemoveWhileStarting(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		id := n.newContainer(n.newSandbox("uid"), "uid", "serve")
		gate := new(faults.Gate)
		n.inject(faults.Fault{Match: faults.Match{Method: StartContainer}, When: faults.Midway, Hang: gate})
		started := make(chan error, 1)
		go func() { started <- n.startIt(id) }()
		synctest.Wait()
		n.code(n.startIt(id), codes.Unknown)
		_, err := n.rt.RemoveContainer(n.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id})
		n.code(err, codes.Unknown)
		gate.Open()
		n.ok(<-started)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING, 0)
	})
}

func TestStopSignals(t *testing.T) {
	for signal, code := range map[runtimeapi.Signal]int32{
		runtimeapi.Signal_SIGNAL_SIGHUP:  129,
		runtimeapi.Signal_SIGNAL_SIGINT:  130,
		runtimeapi.Signal_SIGNAL_SIGQUIT: 131,
		runtimeapi.Signal_SIGNAL_SIGUSR1: 138,
		runtimeapi.Signal_SIGNAL_SIGUSR2: 140,
		runtimeapi.Signal_SIGNAL_SIGKILL: 137,
		runtimeapi.Signal_SIGNAL_SIGTERM: 143,
	} {
		onBubble(t, Config{Images: []Image{{Name: "app", StopSignal: signal}}}, func(n *node) {
			_, id := n.runs("uid", "serve")
			n.ok(n.stopIt(n.Context(), id, 5))
			n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, code)
		})
	}
}

func TestFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real", "kept"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onBubble(t, Config{Dir: dir}, func(n *node) {
		id, err := withMounts(n, n.newSandbox("uid"), script(`
			[ -e /m ] && [ -e /m/real ] && rm /m/real && [ ! -e /m/real ] || exit 1
			rm /ro/kept && exit 2
			mkdir /own && touch /own/file && [ -e /own ] && rm /own/file && rmdir /own && [ ! -e /own ] || exit 3
			rm /own/file && exit 4
			exit 0`), "",
			&runtimeapi.Mount{ContainerPath: "/m", HostPath: dir},
			&runtimeapi.Mount{ContainerPath: "/ro", HostPath: dir, Readonly: true})
		n.ok(err)
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 0)
	})
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Error(err)
	}
}
