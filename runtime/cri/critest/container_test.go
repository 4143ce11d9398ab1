package critest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestCommands(t *testing.T) {
	images := []Image{
		{Name: "app"},
		{Name: "both", Entrypoint: []string{"sh", "-c"}, Cmd: []string{"exit 3"}},
		{Name: "known", OnlyKnown: true},
	}
	programs := map[string]Program{"worker": func(ctx context.Context, c *Command) int {
		if err := c.WriteFile("/out", []byte(strings.Join(c.Args, " "))); err != nil {
			return 1
		}
		select {
		case n := <-c.Signals:
			return 40 + n
		case <-ctx.Done():
			return 1
		}
	}}
	for name, tc := range map[string]struct {
		image         string
		command, args []string
		startFails    bool
		code          int32 // after a stop
	}{
		"a server":                {"app", []string{"nginx", "-g"}, nil, false, 143},
		"nothing at all":          {"app", nil, nil, false, 143},
		"only args":               {"app", nil, []string{"nginx"}, false, 143},
		"the image's own":         {"both", nil, nil, false, 3},
		"args instead of its":     {"both", nil, []string{"exit 4"}, false, 4},
		"a command instead":       {"both", []string{"sh", "-c", "exit 5"}, nil, false, 5},
		"a program":               {"known", []string{"/usr/bin/worker", "x"}, nil, false, 55},
		"not in the image":        {"known", []string{"nginx"}, nil, true, 128},
		"nothing in such a image": {"known", nil, nil, true, 128},
	} {
		t.Run(name, func(t *testing.T) {
			onBubble(t, Config{Images: images, Programs: programs}, func(n *node) {
				sandbox := n.newSandbox("uid")
				resp, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
					PodSandboxId: sandbox, SandboxConfig: podConfig("uid"),
					Config: &runtimeapi.ContainerConfig{
						Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: tc.image},
						Command: tc.command, Args: tc.args,
					},
				})
				n.ok(err)
				if err := n.startIt(resp.GetContainerId()); (err != nil) != tc.startFails {
					n.Fatalf("%v, want %v", err, tc.startFails)
				}
				synctest.Wait()
				n.ok(n.stopIt(n.Context(), resp.GetContainerId(), 5))
				n.wantState(resp.GetContainerId(), runtimeapi.ContainerState_CONTAINER_EXITED, tc.code)
			})
		})
	}
}

func TestExitByHand(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", script(deaf)...)
		n.ok(n.ExitContainer(id, Exit{Code: 137, Reason: "OOMKilled", Message: "too much"}))
		st, err := n.inspect(id)
		n.ok(err)
		if st.GetExitCode() != 137 || st.GetReason() != "OOMKilled" || st.GetMessage() != "too much" {
			n.Errorf("%v, want ExitCode 137 and Reason %q and Message %q", st, "OOMKilled", "too much")
		}
		if n.ExitContainer(id, Exit{}) == nil || n.ExitContainer("none", Exit{}) == nil {
			n.Error("what does not run was ended")
		}
	})
}

// A crash loop from the agent's view: every restart is a new container.
func TestProcessThatFailsAfterAWhile(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		for attempt := range uint32(3) {
			id, err := n.tryContainer(n.Context(), sandbox, "uid", attempt, script("sleep 2; exit 9")...)
			n.ok(err)
			n.ok(n.startIt(id))
			time.Sleep(1999 * time.Millisecond)
			n.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING, 0)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 9)
		}
		if len(n.containers()) != 3 {
			n.Errorf("%d containers, want 3 of them", len(n.containers()))
		}
	})
}

func TestExecCanCrashTheContainer(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", "serve")
		_, err := n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: script("kill -HUP 1; kill -USR1 1")})
		n.ok(err)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING, 0) // a server reloads
		_, err = n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: script("kill -INT 1; sleep 100")})
		n.ok(err)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 130)
	})
}

func withMounts(n *node, sandbox string, command []string, logPath string, mounts ...*runtimeapi.Mount) (string, error) {
	config := podConfig("uid")
	resp, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(len(n.containers()))}, Image: &runtimeapi.ImageSpec{Image: "app"},
			Command: command, Mounts: mounts, LogPath: logPath,
		},
	})
	if err != nil {
		return "", err
	}
	return resp.GetContainerId(), n.startIt(resp.GetContainerId())
}

// loggingSandbox creates a sandbox with a log directory.
func loggingSandbox(n *node, dir string) string {
	n.Helper()
	c := podConfig("uid")
	c.LogDirectory = dir
	resp, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: c})
	n.ok(err)
	return resp.GetPodSandboxId()
}

func TestNothingLeavesTheDirectory(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	onBubble(t, Config{Dir: dir}, func(n *node) {
		sandbox := loggingSandbox(n, filepath.Join(dir, "link"))
		for _, path := range []string{"../x.log", "/x.log", "a/../../x.log"} {
			_, err := withMounts(n, sandbox, []string{"true"}, path)
			n.code(err, codes.InvalidArgument)
		}
		if _, err := withMounts(n, sandbox, script("echo x"), "0.log"); err == nil {
			n.Error("a log was made through a link")
		}
		id, err := withMounts(n, sandbox, script("echo x > /m/file; echo x > /m/../m/link/file; echo x > /n/file"), "",
			&runtimeapi.Mount{ContainerPath: "/m", HostPath: dir},
			&runtimeapi.Mount{ContainerPath: "/n", HostPath: outside})
		n.ok(err)
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 0)
		if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
			n.Error(err)
		}
		if got, err := os.ReadDir(outside); err != nil || len(got) > 0 {
			n.Errorf("%v, %v, want nothing", got, err)
		}
		if got, err := n.ReadFile(filepath.Join(outside, "file")); err != nil || string(got) != "x\n" {
			n.Errorf("in memory: %q, %v, want %q and no error", got, err, "x\n")
		}
		c := podConfig("uid")
		c.LogDirectory = "relative"
		_, err = n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: c})
		n.code(err, codes.InvalidArgument)
	})
}

// Files below Config.Dir are those of its path now. A kubelet mounts its directory on itself after the start, and volumes below
// that mount are not in the directory that was there before.
func TestDirThatIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	onBubble(t, Config{Dir: dir}, func(n *node) {
		n.ok(os.Rename(dir, dir+".old"))
		n.ok(os.Mkdir(dir, 0o755))
		n.ok(os.WriteFile(filepath.Join(dir, "f"), []byte("new"), 0o644))
		if got, err := n.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "new" {
			n.Errorf("%q, %v, want %q", got, err, "new")
		}
		n.ok(os.RemoveAll(dir))
		if _, err := n.ReadFile(filepath.Join(dir, "f")); !errors.Is(err, fs.ErrNotExist) {
			n.Errorf("without the directory: %v, want %v", err, fs.ErrNotExist)
		}
	})
}

func TestFilesInMemory(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.ok(n.WriteFile("/etc/config", []byte("blue")))
		sandbox := loggingSandbox(n, "/var/log/pods/web")
		id, err := withMounts(n, sandbox, script("cat /c; echo -n bye > /dev/termination-log; exit 2"), "app/0.log",
			&runtimeapi.Mount{ContainerPath: "/c", HostPath: "/etc/config", Readonly: true},
			&runtimeapi.Mount{ContainerPath: "/dev/termination-log", HostPath: "/pods/message"})
		n.ok(err)
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 2)
		if got, err := n.ReadFile("/pods/message"); err != nil || string(got) != "bye" {
			n.Errorf("%q, %v, want %q and no error", got, err, "bye")
		}
		log, err := n.ReadFile("/var/log/pods/web/app/0.log")
		if want := time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z") + " stdout P blue\n"; err != nil || string(log) != want {
			n.Errorf("%q, want %q, %v", log, want, err)
		}
	})
}

func TestLongLogLines(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := loggingSandbox(n, "/logs")
		n.ok(n.WriteFile("/big", []byte(strings.Repeat("a", maxLogLine+10)+"\nb\n")))
		_, err := withMounts(n, sandbox, script("cat /big"), "0.log", &runtimeapi.Mount{ContainerPath: "/big", HostPath: "/big"})
		n.ok(err)
		synctest.Wait()
		log, err := n.ReadFile("/logs/0.log")
		n.ok(err)
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], " stdout P aaa") || !strings.HasSuffix(lines[1], " stdout F aaaaaaaaaa") || !strings.HasSuffix(lines[2], " F b") {
			n.Errorf("%d lines, want 3: one with %q in it, and two that end with %q and %q", len(lines), " stdout P aaa", " stdout F aaaaaaaaaa", " F b")
		}
	})
}

func TestResourcesMerge(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", "serve")
		for _, r := range []*runtimeapi.LinuxContainerResources{
			{CpuShares: 2, MemoryLimitInBytes: 100, Unified: map[string]string{"a": "1"}},
			{CpuShares: 512, CpusetCpus: "0", Unified: map[string]string{"b": "2"}},
		} {
			_, err := n.rt.UpdateContainerResources(n.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
			n.ok(err)
		}
		st, err := n.inspect(id)
		n.ok(err)
		if r := st.GetResources().GetLinux(); r.GetCpuShares() != 512 || r.GetMemoryLimitInBytes() != 100 || r.GetCpusetCpus() != "0" || len(r.GetUnified()) != 2 {
			n.Errorf("%v, want 512 CPU shares, a memory limit of 100, CPU %q and two unified values", r, "0")
		}
		_, err = n.rt.UpdateContainerResources(n.Context(), &runtimeapi.UpdateContainerResourcesRequest{ContainerId: "none"})
		n.code(err, codes.NotFound)
	})
}

func TestStatsOfASandbox(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, _ := n.runs("uid", "serve")
		time.Sleep(10 * time.Second)
		one, err := n.rt.PodSandboxStats(n.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: sandbox})
		n.ok(err)
		all, err := n.rt.ListPodSandboxStats(n.Context(), &runtimeapi.ListPodSandboxStatsRequest{Filter: &runtimeapi.PodSandboxStatsFilter{Id: sandbox}})
		n.ok(err)
		l := one.GetStats().GetLinux()
		if len(all.GetStats()) != 1 || len(l.GetContainers()) != 1 || l.GetProcess().GetProcessCount().GetValue() != 2 ||
			l.GetContainers()[0].GetCpu().GetUsageCoreNanoSeconds().GetValue() != 10*nanoCores {
			n.Errorf("%v, want one container with two processes and %v ns of CPU time", one, 10*nanoCores)
		}
		_, err = n.rt.PodSandboxStats(n.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: "none"})
		n.code(err, codes.NotFound)
	})
}

// A container's usage set by SetUsage is reported for it and for its sandbox as long as it runs.
func TestSetUsage(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "serve")
		n.ok(n.Runtime.SetUsage(id, Usage{MemoryBytes: 1 << 30, RootFSBytes: 5}))
		one, err := n.rt.PodSandboxStats(n.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: sandbox})
		n.ok(err)
		l := one.GetStats().GetLinux()
		c := l.GetContainers()[0]
		if c.GetMemory().GetWorkingSetBytes().GetValue() != 1<<30 || l.GetMemory().GetWorkingSetBytes().GetValue() != 1<<30+usedMemory ||
			c.GetWritableLayer().GetUsedBytes().GetValue() != 5 {
			n.Errorf("%v, want Value %v and Value %v and Value 5", one, 1<<30, 1<<30+usedMemory)
		}
		if err := n.Runtime.SetUsage("none", Usage{}); err == nil {
			n.Error("an ID that is not there is taken")
		}
	})
}

func TestContainersInSandboxStatus(t *testing.T) {
	for like, in := range map[Model]bool{Containerd2: false, CRIO: true} {
		onBubble(t, Config{Like: like}, func(n *node) {
			sandbox, _ := n.runs("uid", "serve")
			resp, err := n.rt.PodSandboxStatus(n.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
			n.ok(err)
			if (len(resp.GetContainersStatuses()) == 1) != in || (resp.GetTimestamp() != 0) != in {
				n.Errorf("%v: %v, want %v and %v", in, resp, in, in)
			}
		})
	}
}

// Reads run concurrently with writes, for the race detector.
func TestManyPodsAtOnce(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		events := n.events()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				uid := fmt.Sprint("uid", i)
				sandbox, err := n.trySandbox(n.Context(), uid)
				if err != nil {
					n.Error(err)
					return
				}
				id, err := n.tryContainer(n.Context(), sandbox, uid, 0, script("echo hi; sleep 1")...)
				if err != nil || n.startIt(id) != nil {
					n.Error(err)
				}
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if err := n.stopIt(n.Context(), id, 1); err != nil {
					n.Error(err)
				}
				if _, err := n.rt.RemovePodSandbox(n.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
					n.Error(err)
				}
			})
		}
		wg.Wait()
		if got, _ := events(); len(got) != 20*8 {
			n.Errorf("%d events, want 8 for each pod", len(got))
		}
		if len(n.sandboxes())+len(n.containers()) != 0 {
			n.Error("something is left")
		}
	})
}
