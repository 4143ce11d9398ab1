package csi_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A machine is a node with a whole agent on a runtime in memory. Each new agent gets the root directory and the
// containers of the agent before it.
type machine struct {
	*node
	rt     *critest.Runtime
	wanted map[types.UID]*v1.Pod
	// known is a copy of wanted for the agent's goroutines, which read claims.
	known atomic.Pointer[map[types.UID]*v1.Pod]
	pods  *source.Push
	// endAgent ends the agent, nil if none runs.
	endAgent func()
}

// onMachine runs f in virtual time. Containers that use a volume are found by the UID of their pod in its path.
func onMachine(t *testing.T, c csitest.Config, f func(t *testing.T, m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.Mounter = &precious{t: t, mounted: map[string]bool{}}
		m := &machine{node: newNode(t, c), wanted: map[types.UID]*v1.Pod{}}
		m.known.Store(&map[types.UID]*v1.Pod{})
		m.rt, _ = critest.Start(t, critest.Config{Dir: t.TempDir()})
		m.objects.Claim, m.objects.Volume = m.claim, volumeOf
		m.objects.Driver = func(context.Context, string) (*storagev1.CSIDriver, error) {
			return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{
				AttachRequired: new(false), PodInfoOnMount: new(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
			}}, nil
		}
		m.driver.SetInUse(func(target string) bool { return len(m.processesOf(target)) > 0 })
		t.Cleanup(m.stop)
		f(t, m)
	})
}

// precious is a Mounter with a file in each mounted directory. It reports a file that has disappeared.
type precious struct {
	t       *testing.T
	mu      sync.Mutex
	mounted map[string]bool
}

// devices is part of the path at which a block device is published, which is a file.
const devices = "volumeDevices/publish"

func (p *precious) Mount(_, target string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mounted[target] {
		return nil
	}
	p.mounted[target] = true
	if strings.Contains(target, devices) {
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o750), os.WriteFile(target, nil, 0o600))
	}
	return errors.Join(os.MkdirAll(target, 0o750), os.WriteFile(filepath.Join(target, "rows"), []byte("precious"), 0o600))
}

func (p *precious) Unmount(target string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mounted[target] {
		return nil
	}
	delete(p.mounted, target)
	file := target
	if !strings.Contains(target, devices) {
		file = filepath.Join(target, "rows")
	}
	if err := os.Remove(file); err != nil {
		p.t.Errorf("data of a volume was removed: %v", err)
	}
	return nil
}

// claim returns a claim: data and mine as in newNode, raw for a block device, and those of ephemeral volumes, which
// belong to their pods.
func (m *machine) claim(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
	volumes := map[string]string{"data": "pv", "mine": "single", "raw": "raw"}
	c := claim(name, volumes[name])
	c.Status.Phase = v1.ClaimBound
	for _, pod := range *m.known.Load() {
		if name == pod.Name+"-vol" {
			c.Spec.VolumeName = "of-" + pod.Name
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
		}
	}
	if c.Spec.VolumeName == "" {
		return nil, errors.New("not found")
	}
	return c, nil
}

func volumeOf(_ context.Context, name string) (*v1.PersistentVolume, error) {
	mode := v1.ReadWriteOnce
	if name == "single" {
		mode = v1.ReadWriteOncePod
	}
	pv := persistent(name, mode)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: map[string]string{"pv": "data", "single": "mine", "raw": "raw"}[name]}
	if pod, ok := strings.CutPrefix(name, "of-"); ok {
		pv.Spec.ClaimRef.Name = pod + "-vol"
	}
	pv.Spec.ClaimRef.UID = types.UID("uid-of-" + pv.Spec.ClaimRef.Name)
	if name == "raw" {
		pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	}
	return pv, nil
}

// podFor returns a pod with a container that runs until it is stopped. The volume is named by its claim, or is inline or
// ephemeral.
func podFor(name, uid, volume string) *v1.Pod {
	pod := podOf(name, volume)
	switch volume {
	case "inline":
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driverName}}
	case "ephemeral":
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
	case "raw":
		pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: "vol", DevicePath: "/dev/raw"}}
	}
	pod.UID, pod.Spec.ServiceAccountName, pod.Spec.TerminationGracePeriodSeconds = types.UID(uid), "", new(int64(1))
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Command = "registry.test/app:1", []string{"sleep", "infinity"}
	return pod
}

// run starts the next agent.
func (m *machine) run() {
	m.t.Helper()
	m.stop()
	m.start()
	conn := must.Get(m.rt.Dial())(m.t)
	m.pods = source.NewPush()
	agent := must.Get(nodeagent.New(nodeagent.Config{
		Client: cri.NewClient(conn), Sources: []source.Source{m.pods}, Root: m.root, NoEviction: true,
		Sync: syncpod.Config{Extensions: syncpod.Extensions{Volumes: m.m}, Node: syncpod.Node{LogsRoot: filepath.Join(m.root, "logs")}, RuntimeName: "critest"},
	}))(m.t)
	end := must.Run(m.t, agent.Run)
	m.endAgent = func() {
		m.endAgent = nil
		end()
		must.Do(m.t, conn.Close())
	}
	m.want()
}

// stop ends the agent. Containers run on, and volumes stay mounted.
func (m *machine) stop() {
	if m.endAgent != nil {
		m.endAgent()
	}
	if m.kill != nil {
		m.kill()
	}
}

// want passes the wanted pods to the agent.
func (m *machine) want() {
	m.t.Helper()
	known := maps.Clone(m.wanted)
	m.known.Store(&known)
	must.Do(m.t, m.pods.Set(slices.Collect(maps.Values(m.wanted))...))
}

func (m *machine) add(pod *v1.Pod) { m.wanted[pod.UID] = pod; m.want() }

// processesOf returns the processes of the pod to whom a target belongs.
func (m *machine) processesOf(target string) (all []critest.Process) {
	for _, p := range m.rt.Processes() {
		if p.Ended.IsZero() && strings.Contains(target+"/", "/"+p.PodUID+"/") {
			all = append(all, p)
		}
	}
	return all
}

func (m *machine) runs(uid types.UID) bool { return len(m.processesOf("/"+string(uid))) > 0 }

// The claim of an ephemeral volume belongs to its pod: a claim of the same name that does not is refused.
func TestEphemeralVolumes(t *testing.T) {
	onMachine(t, csitest.Config{}, func(t *testing.T, m *machine) {
		find := m.objects.Claim
		var own atomic.Bool
		m.objects.Claim = func(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
			c, err := find(ctx, namespace, name)
			if !own.Load() && err == nil {
				c.OwnerReferences[0].UID = "another"
			}
			return c, err
		}
		m.run()
		m.add(podFor("web", "uid-1", "ephemeral"))
		m.settle()
		if m.runs("uid-1") || len(m.driver.Calls()) > 0 {
			t.Errorf("a pod runs on the claim of another: %v", m.driver.Calls())
		}
		pod := m.wanted["uid-1"]
		if err := m.m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], m.dir(pod)); err == nil || !strings.Contains(err.Error(), "PVC ns/web-vol was not created for pod ns/web (pod is not owner)") {
			t.Errorf("%v", err)
		}
		own.Store(true)
		m.settle()
		if !m.runs("uid-1") {
			t.Error("the pod does not run on a claim of its own")
		}
		m.wantCalls("NodeStage handle-of-of-web OK", "NodePublish handle-of-of-web OK")
		delete(m.wanted, "uid-1")
		m.want()
		m.settle()
		m.wantNothing()
	})
}

// A container gets a block volume as a device, and not in a mount. A block volume in volumeMounts is refused.
func TestBlockVolumes(t *testing.T) {
	onMachine(t, csitest.Config{}, func(t *testing.T, m *machine) {
		m.run()
		m.add(podFor("db", "uid-1", "raw"))
		wrong := podFor("wrong", "uid-2", "raw")
		wrong.Spec.Containers[0].VolumeMounts, wrong.Spec.Containers[0].VolumeDevices = []v1.VolumeMount{{Name: "vol", MountPath: "/data"}}, nil
		m.add(wrong)
		m.settle()
		if !m.runs("uid-1") || m.runs("uid-2") {
			t.Fatalf("runs: %t and %t, want only the pod with a device", m.runs("uid-1"), m.runs("uid-2"))
		}
		path := filepath.Join(m.root, "plugins/kubernetes.io/csi/volumeDevices/publish/raw/uid-1")
		for _, call := range m.rt.Journal().Of(critest.CreateContainer) {
			c := call.Request().(*runtimeapi.CreateContainerRequest).Config
			if len(c.Devices) != 1 || c.Devices[0].HostPath != path || c.Devices[0].ContainerPath != "/dev/raw" || c.Devices[0].Permissions != "mrw" {
				t.Errorf("devices %v, want %s", c.Devices, path)
			}
			if slices.ContainsFunc(c.Mounts, func(m *runtimeapi.Mount) bool { return strings.Contains(m.HostPath, "/raw/") }) {
				t.Errorf("the device is mounted: %v", c.Mounts)
			}
		}
		if req := m.driver.Published(); len(req) != 1 || req[0].VolumeCapability.GetBlock() == nil || req[0].TargetPath != path {
			t.Errorf("%v, want a block volume at %s", req, path)
		}
		clear(m.wanted)
		m.want()
		m.settle()
		m.wantNothing()
	})
}

// A node that was down returns after its pods were deleted by force (taint node.kubernetes.io/out-of-service). It stops
// their containers, unmounts their volumes, and has them in use until the driver has confirmed that.
func TestNodeThatReturnsWithoutItsPods(t *testing.T) {
	for _, reboots := range []bool{false, true} {
		onMachine(t, csitest.Config{}, func(t *testing.T, m *machine) {
			m.run()
			m.add(podFor("db", "uid-1", "data"))
			m.add(podFor("web", "uid-2", "mine"))
			m.settle()
			if !m.runs("uid-1") || !m.runs("uid-2") {
				t.Fatal("the pods do not run")
			}
			m.stop()
			if reboots {
				for _, p := range m.rt.Processes() {
					must.Do(t, m.rt.ExitContainer(p.ContainerID, critest.Exit{Code: 137}))
				}
			}
			time.Sleep(time.Hour)
			clear(m.wanted) // they run elsewhere now
			m.objects.Claim, m.objects.Volume = nil, nil
			m.driver.Inject(csitest.Fault{Method: "NodeUnpublish", Delay: time.Minute})
			m.run()
			want := []csi.VolumeID{"kubernetes.io/csi/csi.example.com^handle-of-pv", "kubernetes.io/csi/csi.example.com^handle-of-single"}
			for range 30 {
				if got := m.m.InUse(); !slices.Equal(got, want) {
					t.Fatalf("reboots %t: in use: %v while the volumes are mounted", reboots, got)
				}
				time.Sleep(time.Second)
			}
			m.settle()
			if m.runs("uid-1") || m.runs("uid-2") {
				t.Error("the pods run on")
			}
			m.wantNothing()
			m.wantNoDirectories()
		})
	}
}

// wantNoDirectories checks that no pod has a directory.
func (m *machine) wantNoDirectories() {
	if left, _ := filepath.Glob(filepath.Join(m.root, "pods/*")); len(left) > 0 {
		m.t.Errorf("left: %v", left)
	}
}
