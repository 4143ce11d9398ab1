package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const image = "localhost/busybox:e2e"

// TestAnswers compares critest with the exact error codes of runtimes, and with their texts if agents read them. Package
// conformance checks only what an agent may rely on, but a fake must not be more lenient than the runtime that it imitates.
func TestAnswers(t *testing.T) {
	for _, endpoint := range endpoints(t) {
		conn := must.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		t.Cleanup(func() { _ = conn.Close() })
		want, got := answers(t, fakeLike(t, conn)), answers(t, conn)
		for _, what := range slices.Sorted(maps.Keys(want)) {
			if got[what] != want[what] {
				t.Errorf("%s: %s: %s; critest: %s", endpoint, what, got[what], want[what])
			}
		}
	}
}

// fakeLike returns a critest with the model of a runtime.
func fakeLike(t *testing.T, conn *grpc.ClientConn) *grpc.ClientConn {
	v := must.Get(runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{}))(t)
	like := critest.Containerd2
	switch name, version := v.GetRuntimeName(), strings.TrimPrefix(v.GetRuntimeVersion(), "v"); {
	case name == "containerd" && strings.HasPrefix(version, "1.6."):
		like = critest.Containerd16
	case name == "containerd" && !strings.HasPrefix(version, "1."):
	case name == "cri-o":
		like = critest.CRIO
	default:
		t.Skipf("critest has no model of %s %s", name, version)
	}
	_, fake := critest.Start(t, critest.Config{
		Like: like, LogsRoot: os.TempDir(), Images: []critest.Image{{Name: image, OnlyKnown: true}}, Registry: []critest.RemoteImage{},
	})
	return fake.ClientConn
}

// A caller makes calls for one pod and records the responses.
type caller struct {
	testing.TB
	rt      runtimeapi.RuntimeServiceClient
	img     runtimeapi.ImageServiceClient
	pod     *runtimeapi.PodSandboxConfig
	sandbox string
	notes   map[string]string
}

// answers makes the same calls on any runtime.
func answers(t *testing.T, conn *grpc.ClientConn) map[string]string {
	c := &caller{
		TB: t, notes: map[string]string{}, rt: runtimeapi.NewRuntimeServiceClient(conn), img: runtimeapi.NewImageServiceClient(conn),
		pod: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "answers", Namespace: "e2e", Uid: fmt.Sprintf("uid-%d-%d", os.Getpid(), time.Now().UnixNano())},
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
		},
	}
	resp := must.Get(c.rt.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: c.pod}))(t)
	c.sandbox = resp.GetPodSandboxId()
	t.Cleanup(func() {
		if _, err := c.rt.RemovePodSandbox(context.Background(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: c.sandbox}); err != nil {
			t.Error(err)
		}
	})
	c.names()
	c.starts()
	c.execs()
	c.stops()
	c.images()
	c.logs()
	c.stoppedSandbox()
	return c.notes
}

func (c *caller) note(what string, err error) { c.notes[what] = status.Code(err).String() }

var id = regexp.MustCompile(`[0-9a-f]{64}`)

// noteText records the end of an error's text, beginning with a word.
func (c *caller) noteText(what, from string, err error) {
	text := id.ReplaceAllString(status.Convert(err).Message(), "ID")
	text = strings.ReplaceAll(text, c.pod.GetMetadata().GetUid(), "UID")
	_, text, _ = strings.Cut(text, from)
	c.notes[what+", in words"] = from + text
}

func (c *caller) create(attempt uint32, change func(*runtimeapi.ContainerConfig), command ...string) (string, error) {
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
		Command:  command,
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	if change != nil {
		change(config)
	}
	resp, err := c.rt.CreateContainer(c.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: c.sandbox, Config: config, SandboxConfig: c.pod,
	})
	return resp.GetContainerId(), err
}

func (c *caller) start(id string) error {
	_, err := c.rt.StartContainer(c.Context(), &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (c *caller) run(attempt uint32, command ...string) string {
	id, err := c.create(attempt, nil, command...)
	if err == nil {
		err = c.start(id)
	}
	must.Do(c, err)
	return id
}

func (c *caller) stop(id string, timeout int64) error {
	_, err := c.rt.StopContainer(c.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

// end notes how a container has ended.
func (c *caller) end(what, id string) {
	for range 500 {
		resp := must.Get(c.rt.ContainerStatus(c.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id}))(c)
		if st := resp.GetStatus(); st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			c.notes["end of: "+what] = fmt.Sprintf("code %d, reason %s", st.GetExitCode(), st.GetReason())
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.Fatalf("%s: no end", what)
}

func (c *caller) names() {
	_, err := c.rt.RunPodSandbox(c.Context(), &runtimeapi.RunPodSandboxRequest{Config: c.pod})
	c.note("a sandbox's name is taken", err)
	c.noteText("a sandbox's name is taken", "failed to reserve sandbox name", err)
	must.Get(c.create(0, nil, "true"))(c)
	_, err = c.create(0, nil, "true")
	c.note("a container's name is taken", err)
	c.noteText("a container's name is taken", `: name "app_`, err)
	_, err = c.rt.RunPodSandbox(c.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "other", Namespace: "e2e", Uid: c.pod.GetMetadata().GetUid()},
	}, RuntimeHandler: "none"})
	c.note("no such handler", err)
}

func (c *caller) starts() {
	id, err := c.create(10, nil, "/no/such/command")
	c.note("create with no such command", err)
	if err == nil {
		c.note("start with no such command", c.start(id))
		c.end("no such command", id)
		c.note("start again", c.start(id))
	}
	id = c.run(11, "sleep", "1000")
	c.note("start of a running one", c.start(id))
	c.note("stop", c.stop(id, 0))
	c.end("stopped at once", id)
	_, err = c.create(12, func(config *runtimeapi.ContainerConfig) { config.Image.Image = "localhost/none:1" }, "true")
	c.note("create without the image", err)
}

func (c *caller) execs() {
	id := c.run(20, "sleep", "1000")
	exec := func(what string, timeout int64, command ...string) {
		resp, err := c.rt.ExecSync(c.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: timeout})
		c.note(what, err)
		if err == nil {
			c.notes[what+", its code"] = fmt.Sprint(resp.GetExitCode())
		}
	}
	exec("exec", 5, "sh", "-c", "exit 3")
	exec("exec without end", 1, "sleep", "1000")
	exec("exec of no such command", 5, "/no/such/command")
	exec("exec of a shell without a command", 5, "sh", "-c", "/no/such/command")
	exec("exec cannot kill process 1", 5, "kill", "-9", "1")
	stopped := make(chan struct{})
	time.AfterFunc(500*time.Millisecond, func() {
		defer close(stopped)
		_ = c.stop(id, 0)
	})
	exec("exec in one that is killed", 30, "sleep", "1000")
	<-stopped // until then the runtime may not have noticed the exit
	exec("exec in an exited one", 5, "true")
}

func (c *caller) stops() {
	id := c.run(30, "sh", "-c", "trap '' TERM; sleep 1000")
	first := make(chan error, 1)
	start := time.Now()
	go func() { first <- c.stop(id, 1000) }()
	time.Sleep(500 * time.Millisecond)
	c.note("second stop, with less time", c.stop(id, 1))
	c.note("first stop, with more", <-first)
	c.notes["the second stop's time counts"] = fmt.Sprint(time.Since(start) < 20*time.Second)
	c.end("stopped twice", id)
	id = c.run(31, "sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")
	_, err := c.rt.RemoveContainer(c.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id})
	c.note("remove of a running one", err)
	c.note("stop of a removed one", c.stop(id, 5))
	_, err = c.rt.ReopenContainerLog(c.Context(), &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	c.note("reopen the log of a removed one", err)
	_, err = c.rt.UpdateContainerResources(c.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id})
	c.note("update a removed one", err)
	_, err = c.rt.ContainerStats(c.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: id})
	c.note("statistics of a removed one", err)
}

func (c *caller) images() {
	_, err := c.img.ImageStatus(c.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "localhost/none:1"}})
	c.note("status of an image that is not there", err)
	_, err = c.img.PullImage(c.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "NOT A NAME"}})
	c.note("pull of an invalid name", err)
	_, err = c.img.RemoveImage(c.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "localhost/none:1"}})
	c.note("remove an image that is not there", err)
}

// logs creates a container whose log directory does not exist.
func (c *caller) logs() {
	pod := proto.CloneOf(c.pod)
	pod.Metadata.Attempt, pod.LogDirectory = 1, filepath.Join(c.TempDir(), "none")
	directory := func(when string) {
		c.notes["a log directory "+when] = "none"
		if info, err := os.Stat(pod.LogDirectory); err == nil {
			c.notes["a log directory "+when] = info.Mode().String()
		}
	}
	resp, err := c.rt.RunPodSandbox(c.Context(), &runtimeapi.RunPodSandboxRequest{Config: pod})
	c.note("a sandbox without its log directory", err)
	if err != nil {
		return
	}
	other := *c
	other.pod, other.sandbox = pod, resp.GetPodSandboxId()
	directory("after its sandbox was made")
	id, err := other.create(50, func(config *runtimeapi.ContainerConfig) { config.LogPath = "0.log" }, "true")
	c.note("create without the log directory", err)
	directory("after its container was made")
	c.note("start without the log directory", c.start(id))
	directory("after the start")
	_, err = os.Stat(filepath.Join(pod.LogDirectory, "0.log"))
	c.notes["the log is there"] = fmt.Sprint(err == nil)
	_, err = c.rt.RemovePodSandbox(c.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: other.sandbox})
	c.note("remove what had no log directory", err)
}

func (c *caller) stoppedSandbox() {
	id, err := c.create(40, nil, "true")
	must.Do(c, err)
	_, err = c.rt.StopPodSandbox(c.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: c.sandbox})
	c.note("stop the sandbox", err)
	_, err = c.create(41, nil, "true")
	c.note("create in a stopped sandbox", err)
	c.note("start in a stopped sandbox", c.start(id))
	c.end("start in a stopped sandbox", id)
	resp, err := c.rt.PodSandboxStatus(c.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: c.sandbox})
	c.note("status of a stopped sandbox", err)
	c.notes["a stopped sandbox has an address"] = fmt.Sprint(resp.GetStatus().GetNetwork().GetIp() != "")
	if status.Code(err) != codes.OK {
		c.Fatalf("%v, want %v", err, codes.OK)
	}
}
