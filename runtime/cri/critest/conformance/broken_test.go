package conformance

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// A verdict replaces the test of a rule and records its output.
type verdict struct {
	testing.TB
	mu  sync.Mutex
	bad string
}

func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bad == "" {
		v.bad = fmt.Sprintf(format, args...)
	}
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

// sabotage modifies a response before the rules receive it.
type sabotage func(m critest.Method, resp proto.Message, err error) error

// verdictOn checks one rule on a runtime whose responses are modified.
func verdictOn(t *testing.T, r rule, s sabotage) string {
	v := &verdict{}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		v.TB = t
		rt, err := critest.New(nodeConfig(dir))
		if err != nil {
			t.Fatal(err)
		}
		honest := false // true during the cleanup
		conn, err := rt.Dial(grpc.WithUnaryInterceptor(func(ctx context.Context, full string, req, resp any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, full, req, resp, cc, opts...)
			if honest {
				return err
			}
			return s(critest.Method(path.Base(full)), resp.(proto.Message), err)
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			_ = rt.Close()
		})
		cfg := Config{Image: "localhost/busybox:critest", Dir: dir}.withDefaults()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.check(newBench(v, r, cfg, conn.ClientConn))
		}()
		<-done
		honest = true
	})
	return v.bad
}

func TestEveryRuleCanBeBroken(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if strings.HasPrefix(r.name, "events") {
				t.Skip("an event stream is broken in a test of its own")
			}
			bad := verdictOn(t, r, func(critest.Method, proto.Message, error) error { return status.Error(codes.Internal, "broken") })
			if !strings.Contains(bad, r.sentence) && !strings.Contains(bad, "cleaning up") {
				t.Errorf("a runtime whose calls all fail passes the check; the result is %q", bad)
			}
		})
	}
}

func TestARuntimeThatReturnsNothingBreaksTheRules(t *testing.T) {
	// These rules require only that the calls succeed.
	content := []string{"cgroup-driver", "pod-cidr", "sandbox-stop-again", "sandbox-stop-unknown", "image-absent", "image-remove-absent",
		"stop-unknown", "remove-unknown", "events", "events-sandbox"}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if slices.Contains(content, r.name) {
				t.Skip("an empty answer is a right one")
			}
			bad := verdictOn(t, r, func(m critest.Method, resp proto.Message, err error) error {
				proto.Reset(resp)
				return nil
			})
			if bad == "" {
				t.Error("a runtime of empty answers keeps it")
			}
		})
	}
}

func TestRulesNoticeSmallLies(t *testing.T) {
	container := func(lie func(*runtimeapi.ContainerStatus)) sabotage {
		return func(_ critest.Method, resp proto.Message, err error) error {
			if r, ok := resp.(*runtimeapi.ContainerStatusResponse); ok && r.GetStatus() != nil {
				lie(r.GetStatus())
			}
			return err
		}
	}
	sandbox := func(lie func(*runtimeapi.PodSandboxStatus)) sabotage {
		return func(_ critest.Method, resp proto.Message, err error) error {
			if r, ok := resp.(*runtimeapi.PodSandboxStatusResponse); ok && r.GetStatus() != nil {
				lie(r.GetStatus())
			}
			return err
		}
	}
	fails := func(m critest.Method, code codes.Code) sabotage {
		return func(got critest.Method, _ proto.Message, err error) error {
			if got == m && status.Code(err) == codes.NotFound {
				return status.Error(code, "not found")
			}
			return err
		}
	}
	for _, tc := range []struct {
		rule string
		lie  sabotage
	}{
		{"sandbox-ready", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network = nil })},
		{"sandbox-ready", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.CreatedAt = 0 })},
		{"sandbox-echo", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.Metadata.Attempt = 0 })},
		{"sandbox-node-network", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{"sandbox-addresses", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.Network.Ip = "10.0.0.1" })},
		{"sandbox-stop", sandbox(func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_READY })},
		{"sandbox-status-unknown", fails(critest.PodSandboxStatus, codes.Unknown)},
		{"container-created", container(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = 1 })},
		{"container-running", container(func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 })},
		{"container-exit-0", container(func(s *runtimeapi.ContainerStatus) { s.Reason = "" })},
		{"container-exit-0", container(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = s.StartedAt - 1 })},
		{"container-exit-code", container(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 })},
		{"container-echo", container(func(s *runtimeapi.ContainerStatus) { delete(s.Annotations, "conformance/annotation") })},
		{"container-start-unknown", fails(critest.StartContainer, codes.Unknown)},
		{"container-image", container(func(s *runtimeapi.ContainerStatus) { s.ImageRef = "" })},
		{"stop-known", container(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = 0 })},
		{"stop-deaf", container(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 143 })},
		{"remove", fails(critest.ContainerStatus, codes.Unknown)},
		{"mounts-told", container(func(s *runtimeapi.ContainerStatus) { s.Mounts = nil })},
		{"log-path-told", container(func(s *runtimeapi.ContainerStatus) { s.LogPath = "" })},
		{"image-filesystem", func(_ critest.Method, resp proto.Message, err error) error {
			if r, ok := resp.(*runtimeapi.ImageFsInfoResponse); ok {
				r.ImageFilesystems[0].FsId.Mountpoint = "/no/such/directory"
			}
			return err
		}},
		{"exec-exited", fails(critest.ExecSync, codes.Unknown)},
		{"resources-update", container(func(s *runtimeapi.ContainerStatus) { s.Resources.Linux.CpuShares = 512 })},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			all := rules()
			i := slices.IndexFunc(all, func(r rule) bool { return r.name == tc.rule })
			if i < 0 {
				t.Fatal("no such rule")
			}
			if bad := verdictOn(t, all[i], tc.lie); !strings.HasPrefix(bad, all[i].sentence+"\nBut: ") {
				t.Errorf("the result is %q, want it to begin with %v", bad, all[i].sentence+"\nBut: ")
			}
		})
	}
}

func TestRulesNoticeBrokenEvents(t *testing.T) {
	for _, f := range []faults.Event{
		{Action: faults.Drop, Times: 1, Container: "app"},
		{Action: faults.Duplicate, Times: 1, Container: "app"},
		{Action: faults.Reorder, Times: 1, Container: "app"},
		{Action: faults.Timeless, Times: 1, Container: "app"},
		{Action: faults.Bare, Times: faults.Always},
	} {
		t.Run(fmt.Sprint(f.Action), func(t *testing.T) {
			broken := 0
			for _, r := range eventRules {
				dir := t.TempDir()
				v := &verdict{}
				synctest.Test(t, func(t *testing.T) {
					v.TB = t
					rt, conn := critest.Start(t, nodeConfig(dir))
					if _, err := rt.InjectEvent(f); err != nil {
						t.Fatal(err)
					}
					done := make(chan struct{})
					go func() {
						defer close(done)
						r.check(newBench(v, r, Config{Image: "localhost/busybox:critest", Dir: dir}.withDefaults(), conn.ClientConn))
					}()
					<-done
				})
				if v.bad != "" {
					broken++
				}
			}
			if broken == 0 {
				t.Error("no rule is broken")
			}
		})
	}
}

func TestRulesHaveNamesAndSentences(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules() {
		if r.name == "" || seen[r.name] || !strings.HasSuffix(r.sentence, ".") || strings.Contains(r.sentence, "\n") {
			t.Errorf("%q: %q, want a new name, and one line that ends with %q", r.name, r.sentence, ".")
		}
		seen[r.name] = true
	}
}
