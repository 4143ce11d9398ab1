package csi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// role is the environment variable that makes the test binary run the agent or the driver of
// TestV11_KilledWithRealMounts.
const role = "PODSYNC_CSI_ROLE"

func TestMain(m *testing.M) {
	dir := os.Getenv("PODSYNC_CSI_DIR")
	var err error
	switch os.Getenv(role) {
	case "agent":
		err = runAgent(dir)
	case "driver":
		err = stagingFolders{folders{dir: filepath.Join(dir, "folders")}}.serve(context.Background(), filepath.Join(dir, "root"))
	default:
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// stagingFolders is the driver of the example with staging: it mounts a directory at the staging path, and the staging
// path at the target of each pod.
type stagingFolders struct{ folders }

func (stagingFolders) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	stage := &csipb.NodeServiceCapability_RPC{Type: csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csipb.NodeGetCapabilitiesResponse{Capabilities: []*csipb.NodeServiceCapability{{Type: &csipb.NodeServiceCapability_Rpc{Rpc: stage}}}}, nil
}

func (f stagingFolders) NodeStageVolume(ctx context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	_, err := f.folders.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{VolumeId: req.VolumeId, TargetPath: req.StagingTargetPath})
	return &csipb.NodeStageVolumeResponse{}, err
}

func (f stagingFolders) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	_, err := f.folders.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: req.VolumeId, TargetPath: req.StagingTargetPath})
	return &csipb.NodeUnstageVolumeResponse{}, err
}

func (f stagingFolders) NodePublishVolume(_ context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if !isMountPoint(req.StagingTargetPath) {
		return nil, errors.New("the volume is not staged")
	}
	err := os.MkdirAll(req.TargetPath, 0o755)
	if err == nil && !isMountPoint(req.TargetPath) {
		err = syscall.Mount(req.StagingTargetPath, req.TargetPath, "", syscall.MS_BIND, "")
	}
	return &csipb.NodePublishVolumeResponse{}, err
}

// runAgent runs the pods whose manifests are in a directory until it is killed.
func runAgent(dir string) error {
	ctx := context.Background()
	client, err := cri.Dial(ctx, cri.Config{Endpoint: "unix://" + filepath.Join(dir, "cri.sock")})
	if err != nil {
		return err
	}
	pods, err := source.NewFolder(source.FolderConfig{Path: filepath.Join(dir, "manifests"), NodeName: "node", Rescan: time.Second})
	if err != nil {
		return err
	}
	pv := persistent("pv", v1.ReadWriteOnce)
	pv.Spec.CSI.Driver = "folders.example.com"
	manager, err := csi.New(csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static(
		[]*v1.PersistentVolume{pv, localVolume(filepath.Join(dir, "disk"))}, []*v1.PersistentVolumeClaim{claim("data", "pv"), claim("disk", "disk-1")})})
	if err != nil {
		return err
	}
	agent, err := agent.New(agent.Config{
		Client: client, Root: filepath.Join(dir, "root"), Sources: []source.Source{pods}, NoEviction: true, // the machine of the test may be under pressure
		StopUnknown: true, // the folder is as the test wants it, even without the killed agent's pods
		Sync:        syncpod.Config{Extensions: syncpod.Extensions{Volumes: manager}, Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}},
	})
	if err != nil {
		return err
	}
	go func() { _ = agent.Run(ctx) }()
	return manager.Run(ctx)
}

// A killable is a process that the test kills and starts again.
type killable struct {
	t    *testing.T
	role string
	dir  string
	cmd  *exec.Cmd
}

func (k *killable) start() {
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), role+"="+k.role, "PODSYNC_CSI_DIR="+k.dir)
	k.cmd.Stderr = os.Stderr
	must.Do(k.t, k.cmd.Start())
}

func (k *killable) kill() {
	_ = k.cmd.Process.Signal(syscall.SIGKILL) // it may have exited
	_ = k.cmd.Wait()
}

const manifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": "ns"}, "spec": {"terminationGracePeriodSeconds": 1,
"containers": [{"name": "app", "image": "registry.test/app:1", "command": ["sleep", "600"], "volumeMounts": [{"name": "vol", "mountPath": "/data"}]}],
"volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": %q}}]}}`

// The agent and the driver are processes that are killed with SIGKILL at random moments, while pods are created and
// deleted. The runtime is not killed. PODSYNC_CSI_ROUNDS is the number of rounds, 3 by default.
func TestV11_KilledWithRealMounts(t *testing.T) {
	dir := needsMount(t)
	for _, d := range []string{"manifests", "disk", "folders/handle-of-pv", "root"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	data := []string{filepath.Join(dir, "disk/rows"), filepath.Join(dir, "folders/handle-of-pv/rows")}
	for _, path := range data {
		must.Do(t, os.WriteFile(path, []byte("precious"), 0o600))
	}
	node := must.Get(critest.New(critest.Config{}))(t)
	defer node.Close()
	must.Get(node.Listen(filepath.Join(dir, "cri.sock")))(t)
	rounds := 3
	if text := os.Getenv("PODSYNC_CSI_ROUNDS"); text != "" {
		must.Get(fmt.Sscan(text, &rounds))(t)
	}
	c := chaos{t: t, dir: dir, node: node, rng: rand.New(rand.NewPCG(1, 1)), agent: &killable{t: t, role: "agent", dir: dir}, driver: &killable{t: t, role: "driver", dir: dir}}
	c.agent.start()
	c.driver.start()
	defer c.agent.kill()
	defer c.driver.kill()
	for range rounds {
		c.round()
	}
	c.want()
	c.wait("pods end", func() bool { left, _ := filepath.Glob(filepath.Join(dir, "root/pods/*")); return len(left) == 0 })
	c.wait("volumes are unstaged", func() bool { points, err := mounts.Below(dir); return err == nil && len(points) == 0 })
	for _, path := range data {
		if text, err := os.ReadFile(path); string(text) != "precious" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// chaos is a node whose processes are killed.
type chaos struct {
	t             *testing.T
	dir           string
	node          *critest.Runtime
	rng           *rand.Rand
	agent, driver *killable
	kills         int
}

// claims maps each pod to its claim.
var claims = map[string]string{"one": "data", "two": "data", "three": "disk"}

// round changes the set of pods, kills processes at random moments, and waits until the pods run.
func (c *chaos) round() {
	var wanted []string
	for name := range claims {
		if c.rng.IntN(2) == 0 {
			wanted = append(wanted, name)
		}
	}
	c.want(wanted...)
	for range 1 + c.rng.IntN(4) {
		for end := time.Now().Add(time.Duration(c.rng.IntN(400)) * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			c.checkUse()
		}
		for _, k := range []*killable{c.agent, c.driver} {
			if c.rng.IntN(2) == 0 {
				k.kill()
				k.start()
				c.kills++
			}
		}
	}
	c.wait(fmt.Sprintf("pods %v run", wanted), func() bool { return len(c.running()) == len(wanted) })
}

// want writes the manifests of pods, and deletes all other manifests.
func (c *chaos) want(pods ...string) {
	c.t.Helper()
	for name, claim := range claims {
		path := filepath.Join(c.dir, "manifests", name+".json")
		err := os.Remove(path)
		if strings.Contains(" "+strings.Join(pods, " ")+" ", " "+name+" ") {
			err = os.WriteFile(path, fmt.Appendf(nil, manifest, name, claim), 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
}

// running returns the path of the volume of each running container.
func (c *chaos) running() map[string]string {
	paths := map[string]string{} // by pod
	for _, call := range c.node.Journal().Of(critest.CreateContainer) {
		req := call.Request().(*runtimeapi.CreateContainerRequest)
		for _, m := range req.Config.GetMounts() {
			if m.ContainerPath == "/data" {
				paths[req.SandboxConfig.GetMetadata().GetUid()] = m.HostPath
			}
		}
	}
	at := map[string]string{}
	for _, p := range c.node.Processes() {
		if p.Ended.IsZero() {
			at[p.ContainerID] = paths[p.PodUID]
		}
	}
	return at
}

// checkUse checks that the volume of each running container is mounted.
func (c *chaos) checkUse() {
	c.t.Helper()
	for id, path := range c.running() {
		if isMountPoint(path) {
			continue
		}
		if _, ok := c.running()[id]; ok {
			c.t.Fatalf("the volume at %s was unmounted while a container uses it", path)
		}
	}
}

func (c *chaos) wait(what string, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		c.checkUse()
		if time.Now().After(end) {
			points, _ := mounts.Below(c.dir)
			c.t.Fatalf("not after 2 min: %s; running: %v; mounted: %v", what, c.running(), points)
		}
	}
}
