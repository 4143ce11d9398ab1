package critest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

func TestJournalOfAPod(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", script(deaf)...)
		time.Sleep(time.Second)
		n.ok(n.stopIt(n.Context(), id, 3))
		n.containers()
		n.newSandbox("other")
		j := n.Journal()
		want := []string{
			"RunPodSandbox default/web attempt 0",
			"CreateContainer default/web app attempt 0",
			"StartContainer default/web app attempt 0",
			"StopContainer default/web app attempt 0",
		}
		if got := j.Pod("uid").Sequence(); !slices.Equal(got, want) {
			n.Errorf("got %q, want %v", got, want)
		}
		if got := j.Counts(); got[RunPodSandbox] != 2 || j.Count() != 6 || j.Count(RunPodSandbox, ListContainers) != 3 {
			n.Errorf("counts %v, want 2 and Count 6 and 3", got)
		}
		if len(j.Container("app")) != 3 || len(j.Changes()) != 5 || len(j.After(5)) != 1 {
			n.Errorf("%d by name, %d changes", len(j.Container("app")), len(j.Changes()))
		}
		stop := j.Of(StopContainer)[0]
		if stop.Duration() != 3*time.Second || stop.N != 4 {
			n.Errorf("%v, want Duration %v and N 4", stop, 3*time.Second)
		}
		if got := stop.Request().(*runtimeapi.StopContainerRequest).GetTimeout(); got != 3 {
			n.Errorf("timeout %d, want 3", got)
		}
		if got := j[1].Response().(*runtimeapi.CreateContainerResponse).GetContainerId(); got != id || j[1].ContainerID != id {
			n.Errorf("made %s, %s, want %v and ContainerID %v", got, j[1].ContainerID, id, id)
		}
		if got := stop.String(); got != "4 StopContainer default/web app attempt 0 3s OK" {
			n.Errorf("%q, want %q", got, "4 StopContainer default/web app attempt 0 3s OK")
		}
	})
}

func TestJournalOfConcurrentCalls(t *testing.T) {
	onBubble(t, Config{Latency: map[Method]time.Duration{version: 10 * time.Second}}, func(n *node) {
		n.inject(faults.Fault{Match: faults.Match{Method: version}, Skip: 2, Err: status.Error(codes.Internal, "no")})
		for i := range 3 {
			go func() {
				time.Sleep(time.Duration(i) * 4 * time.Second)
				_, _ = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{})
			}()
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if j := n.Journal(); len(j.Where(running)) != 3 || j.MaxConcurrent() != 3 || j[0].Duration() != 0 || !strings.HasSuffix(j[0].String(), "running") {
			n.Errorf("%v, want 3 concurrent calls, of which the first has no duration and ends with %q", j, "running")
		}
		time.Sleep(time.Minute)
		j := n.Journal()
		if len(j.Where(running)) != 0 || len(j.Where(failed)) != 1 || j.Where(failed)[0].Fault != "before: error" || j.Where(failed)[0].Response() != nil {
			n.Errorf("%v, want no running call and one that failed, with Fault %q and no Response", j, "before: error")
		}
		n.inject(faults.Fault{Match: faults.Match{Method: version}, Delay: 1})
		_, _ = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{})
		if got := n.Journal().After(3).MaxConcurrent(); got != 1 {
			n.Errorf("one alone: %d", got)
		}
	})
}

// The ways in which a pod's secrets reach the runtime: registry credentials, the environment, commands
// and their output.
func TestJournalIsSafeToPrint(t *testing.T) {
	const secret = "hunter2"
	onBubble(t, Config{}, func(n *node) {
		auth := &runtimeapi.AuthConfig{Username: secret, Password: secret, Auth: secret, IdentityToken: secret, RegistryToken: secret}
		_, err := n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "app"}, Auth: auth})
		n.ok(err)
		sandbox := n.newSandbox("uid")
		resp, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
			PodSandboxId: sandbox, SandboxConfig: podConfig("uid"),
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "app"},
				Command: []string{"serve", secret}, Envs: []*runtimeapi.KeyValue{{Key: "PASSWORD", Value: []byte(secret)}},
			},
		})
		n.ok(err)
		n.ok(n.startIt(resp.GetContainerId()))
		_, err = n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: resp.GetContainerId(), Cmd: script("echo $PASSWORD " + secret)})
		n.ok(err)
		st, err := n.rt.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: resp.GetContainerId(), Verbose: true})
		n.ok(err)
		j := n.Journal()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if out := fmt.Sprintf(verb+verb+verb, j, j[0], &j[0]); strings.Contains(out, secret) {
				n.Errorf("%s prints a secret", verb)
			}
		}
		if strings.Contains(st.String(), secret) {
			n.Error("a verbose status contains a secret")
		}
		pull := j.Of(PullImage)[0]
		if strings.Contains(fmt.Sprint(pull.Request()), secret) {
			n.Errorf("the request still has the credentials")
		}
		if !pull.AuthIs(auth) || pull.AuthIs(nil) || j.Of(ExecSync)[0].AuthIs(auth) {
			n.Error("credentials are not compared well")
		}
	})
}

func TestOnCall(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		var seen []int
		stop := n.OnCall(func(done int, c Call) {
			if !c.Done() || c.Method != ListPodSandbox {
				n.Errorf("%v, want a finished %v", c, ListPodSandbox)
			}
			seen = append(seen, done)
		})
		n.sandboxes()
		n.sandboxes()
		stop()
		n.containers()
		if !slices.Equal(seen, []int{1, 2}) {
			n.Errorf("%v, want %v", seen, []int{1, 2})
		}
	})
}

func TestJournalLimit(t *testing.T) {
	onBubble(t, Config{JournalLimit: 3}, func(n *node) {
		gate := new(faults.Gate)
		n.inject(faults.Fault{Match: faults.Match{Method: version}, Hang: gate})
		go func() { _, _ = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{}) }()
		synctest.Wait()
		for range 5 {
			n.sandboxes()
		}
		gate.Open()
		synctest.Wait()
		if j := n.Journal(); len(j) != 3 || j[0].N != 4 || j[2].N != 6 || j.Count(ListPodSandbox) != 3 {
			n.Errorf("%v, want 3 lists of sandboxes, with the numbers 4 to 6", j)
		}
	})
}

// The memory of a runtime that runs for long does not grow with the number of calls.
func TestALongLifeLeavesNothingBehind(t *testing.T) {
	onBubble(t, Config{JournalLimit: 3}, func(n *node) {
		kept, id := n.runs("kept", "sleep", "infinity")
		for i := range 50 {
			uid := fmt.Sprint("u", i)
			sb, _ := n.runs(uid, "true")
			n.inject(faults.Fault{Match: faults.Match{Method: RemovePodSandbox}, Delay: 1})
			n.CrashAfter(1, nil)
			_, err := n.rt.RemovePodSandbox(n.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sb})
			n.ok(err)
			if last := n.Journal()[2]; last.PodUID != uid {
				n.Errorf("the removal is not of pod %s: %v", uid, last)
			}
		}
		n.inject(faults.Fault{Match: faults.Match{Method: version}, Delay: 1}).Remove()
		n.mu.Lock()
		subjects := len(n.subjects)
		n.mu.Unlock()
		if watchers := len(n.journal.watchers); subjects > 2+2*3+2 || watchers > 0 {
			n.Errorf("left behind: %d subjects, %d watchers", subjects, watchers)
		}
		if r := n.Runtime; r.remembered(kept).uid != "kept" || r.remembered(id).uid != "kept" {
			n.Errorf("an existing container was forgotten")
		}
	})
}

func running(c Call) bool { return !c.Done() }

func failed(c Call) bool { return c.Err != nil }

// A failed test logs once why its pods never became ready.
func TestProblems(t *testing.T) {
	var logged []string
	synctest.Test(t, func(t *testing.T) {
		r, conn := Start(failedTest{t, &logged}, Config{Images: []Image{{Name: "app", OnlyKnown: true}}, Registry: []RemoteImage{}})
		n := &node{T: t, Runtime: r, rt: runtimeapi.NewRuntimeServiceClient(conn), img: runtimeapi.NewImageServiceClient(conn)}
		for range 2 {
			_, err := n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "none"}})
			n.code(err, codes.NotFound)
		}
		sandbox, id := n.runs("uid", script("sleep infinity")...)
		for range 2 {
			_, err := n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"curl", "localhost"}})
			n.code(err, codes.Unknown)
			n.refused(n.address(sandbox) + ":80")
		}
		_, err := withMounts(n, sandbox, []string{"httpd", "-f"}, "")
		n.code(err, codes.Unknown)
		n.inject(faults.Fault{Match: faults.Match{Method: PullImage}, Err: status.Error(codes.Internal, "injected")})
		_, err = n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "app"}})
		n.code(err, codes.Internal)
	})
	for i, want := range []string{"PullImage none: ", `ExecSync default/web app: .*"curl"`, `StartContainer default/web app: .*"httpd"`, "port 80 of pod default/web refused a connection"} {
		if len(logged) != 4 || !regexp.MustCompile(want).MatchString(logged[i]) {
			t.Fatalf("logged\n%s\nwant 4 lines, and %q in line %d", strings.Join(logged, "\n"), want, i+1)
		}
	}
}

// A failedTest has failed, and records what it logs.
type failedTest struct {
	*testing.T
	logged *[]string
}

func (f failedTest) Failed() bool { return true }

func (f failedTest) Log(args ...any) { *f.logged = append(*f.logged, fmt.Sprint(args...)) }
