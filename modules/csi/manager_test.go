package csi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	podvolume "github.com/podsync/podsync/syncpod/volume"
)

const driverName = "csi.example.com"

// A node runs a Manager with a driver in memory. Each new agent gets the root directory of the agent before it.
type node struct {
	t       *testing.T
	root    string
	driver  *csitest.Driver
	conn    *grpc.ClientConn
	objects csi.Objects
	config  csi.Config
	m       *csi.Manager
	kill    func()
}

func newNode(t *testing.T, c csitest.Config) *node {
	n := &node{t: t, root: t.TempDir()}
	n.driver, n.conn = csitest.Start(t, c)
	n.objects = csi.Static([]*v1.PersistentVolume{persistent("pv", v1.ReadWriteOnce), persistent("single", v1.ReadWriteOncePod)},
		[]*v1.PersistentVolumeClaim{claim("data", "pv"), claim("mine", "single")})
	n.config = csi.Config{Drivers: map[string]grpc.ClientConnInterface{driverName: n.conn}}
	t.Cleanup(func() {
		if n.kill != nil {
			n.kill()
		}
		if broken := n.driver.Violations(); len(broken) > 0 {
			t.Errorf("rules of CSI that the agent broke:\n%s", strings.Join(broken, "\n"))
		}
	})
	return n
}

// start starts the next agent.
func (n *node) start() *node {
	n.t.Helper()
	if n.kill != nil {
		n.kill()
	}
	n.config.Root, n.config.Objects = n.root, n.objects
	m := must.Get(csi.New(n.config))(n.t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			n.t.Error(err)
		}
	})
	n.m, n.kill = m, func() { cancel(); running.Wait(); n.kill = nil }
	return n
}

func (n *node) dir(pod *v1.Pod) string { return filepath.Join(n.root, "pods", string(pod.UID)) }

func (n *node) setUp(ctx context.Context, pod *v1.Pod) error {
	must.Do(n.t, os.MkdirAll(n.dir(pod), 0o750))
	return n.m.SetUp(ctx, pod, &pod.Spec.Volumes[0], n.dir(pod))
}

func (n *node) mustSetUp(pod *v1.Pod) {
	n.t.Helper()
	must.Do(n.t, n.setUp(n.t.Context(), pod))
}

func (n *node) mustTearDown(pod *v1.Pod) {
	n.t.Helper()
	must.Do(n.t, n.m.TearDown(n.t.Context(), pod.UID, n.dir(pod)))
}

// settle waits until all work has ended.
func (n *node) settle() { time.Sleep(10 * time.Minute) }

func (n *node) wantCalls(want ...string) {
	n.t.Helper()
	var got []string
	for _, c := range n.driver.Calls() {
		got = append(got, c.String())
	}
	if !slices.Equal(got, want) {
		n.t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantNothing checks that no volume is left in the driver or on the disk.
func (n *node) wantNothing() {
	n.t.Helper()
	if staged, published := n.driver.Volumes(); staged+published > 0 || len(n.m.InUse()) > 0 {
		n.t.Errorf("%d volumes are staged, %d published, in use: %v", staged, published, n.m.InUse())
	}
	for _, left := range []string{"csi/*", "plugins/kubernetes.io/csi/*.*/*", "plugins/kubernetes.io/csi/volumeDevices/*/*", "pods/*/volumes/*/*"} {
		if found, _ := filepath.Glob(filepath.Join(n.root, left)); len(found) > 0 {
			n.t.Errorf("left: %v", found)
		}
	}
}

func persistent(name string, mode v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{mode}, Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle-of-" + name}},
	}}
}

func claim(name, volume string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-of-" + name)}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: volume}}
}

// podWith returns a pod with one volume.
func podWith(uid string, source v1.VolumeSource) *v1.Pod {
	return podtest.Pod(uid, podtest.UID(types.UID(uid)), podtest.Namespace("ns"), podtest.Volume("vol", source), podtest.Container("app", podtest.VolumeMount("vol", "/data")),
		func(p *v1.Pod) { p.Spec.ServiceAccountName = "robot" })
}

func podOf(uid, claim string) *v1.Pod {
	return podWith(uid, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

func bubble(t *testing.T, c csitest.Config, f func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newNode(t, c)) })
}

func TestAVolumeIsStagedAndPublishedAndBothIsUndone(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		a, b := podOf("a", "data"), podOf("b", "data")
		n.mustSetUp(a)
		n.mustSetUp(b)
		at, err := n.m.Locate(a, &a.Spec.Volumes[0], n.dir(a))
		if want := filepath.Join(n.dir(a), "volumes/kubernetes.io~csi/pv/mount"); err != nil || at.Path != want || at.ReadOnly || at.Device {
			t.Errorf("%+v, %v, want %s", at, err, want)
		}
		if got, want := n.m.InUse(), []csi.VolumeID{"kubernetes.io/csi/csi.example.com^handle-of-pv"}; !slices.Equal(got, want) {
			t.Errorf("in use: %v, want %v", got, want)
		}
		n.mustSetUp(a) // a container restarts
		n.mustTearDown(a)
		n.settle()
		n.wantCalls("NodeStage handle-of-pv OK", "NodePublish handle-of-pv OK", "NodePublish handle-of-pv OK", "NodeUnpublish handle-of-pv OK")
		n.mustTearDown(b)
		n.settle()
		n.wantNothing()
		n.mustTearDown(b)
		must.Do(t, os.Remove(filepath.Join(n.dir(b), "volumes/kubernetes.io~csi")))
	})
}

func TestADriverWithoutStage(t *testing.T) {
	bubble(t, csitest.Config{NoStage: true}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		n.wantCalls("NodePublish handle-of-pv OK", "NodeUnpublish handle-of-pv OK")
		n.wantNothing()
	})
}

// A pod's start takes no longer than the calls to the driver.
func TestOnlyTheDriverIsWaitedFor(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Delay: 3 * time.Second})
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Delay: time.Second})
		began := time.Now()
		n.mustSetUp(podOf("a", "data"))
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("it took %v, want 4 s", took)
		}
	})
}

func TestFailuresAreReturnedAndTriedAgainLater(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Code: codes.Internal, Message: "the disk is broken", Times: 4})
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Code: codes.InvalidArgument, Times: 1})
		began := time.Now()
		var at []time.Duration
		for i := 0; ; i++ {
			err := n.setUp(t.Context(), podOf("a", "data"))
			if err == nil {
				break
			}
			at = append(at, time.Since(began).Round(time.Millisecond))
			var failed *podvolume.Error
			if !errors.As(err, &failed) || failed.Volume != "pv" {
				t.Fatalf("%v, want an error that names the PersistentVolume", err)
			}
			if i < 4 && (failed.Operation != "MountVolume.MountDevice" || !strings.Contains(err.Error(), "code = Internal desc = the disk is broken")) || i == 4 && failed.Operation != "" {
				t.Errorf("failure %d: %q of %s", i, err, failed.Operation)
			}
		}
		if want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond, 7500 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("failures at %v, want %v", at, want)
		}
	})
}

// After a definite failure there is nothing to undo.
func TestNothingIsUndoneAfterADefiniteFailure(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Code: codes.InvalidArgument})
		if err := n.setUp(t.Context(), podOf("a", "data")); err == nil {
			t.Fatal("no error")
		}
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		n.wantCalls("NodeStage handle-of-pv InvalidArgument")
		n.wantNothing()
	})
}

func TestADriverThatIsMissingIsNamedAndAwaited(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.driver.Inject(csitest.Fault{})
		drivers := n.config.Drivers
		n.config.Drivers = nil
		n.start()
		err := n.setUp(t.Context(), podOf("a", "data"))
		if err == nil || !strings.Contains(err.Error(), "driver name csi.example.com not found in the list of registered CSI drivers") {
			t.Errorf("%v", err)
		}
		n.config.Drivers = drivers
		n.start()
		n.mustSetUp(podOf("a", "data"))
	})
}

// SetUp returns when its context ends, however slow the driver is. The volume is unmounted once the driver has
// answered.
func TestSetUpEndsWithItsContext(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Delay: time.Minute, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.setUp(ctx, podOf("a", "data")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		n.wantNothing()
	})
}

func TestReadWriteOncePod(t *testing.T) {
	bubble(t, csitest.Config{SingleWriter: true}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "mine"))
		if err := n.setUp(t.Context(), podOf("b", "mine")); err == nil || !strings.Contains(err.Error(), "ReadWriteOncePod") {
			t.Errorf("%v", err)
		}
		if req := n.driver.Published(); len(req) != 1 || req[0].VolumeCapability.AccessMode.Mode.String() != "SINGLE_NODE_SINGLE_WRITER" {
			t.Errorf("%v", req)
		}
		n.mustTearDown(podOf("a", "mine"))
		n.mustSetUp(podOf("b", "mine"))
	})
}

func TestAnInlineVolumeIsNotStaged(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.objects.Driver = func(context.Context, string) (*storagev1.CSIDriver, error) {
			yes := true
			return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PodInfoOnMount: &yes, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}}, nil
		}
		n.start()
		pod := podWith("a", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driverName, VolumeAttributes: map[string]string{"size": "1"}}})
		n.mustSetUp(pod)
		req := n.driver.Published()
		if len(req) != 1 || req[0].VolumeContext["size"] != "1" || req[0].VolumeContext["csi.storage.k8s.io/pod.name"] != "a" || req[0].VolumeContext["csi.storage.k8s.io/serviceAccount.name"] != "robot" {
			t.Errorf("%v", req)
		}
		n.mustTearDown(pod)
		n.settle()
		n.wantNothing()
		if err := n.setUp(t.Context(), podOf("b", "data")); err == nil || !strings.Contains(err.Error(), `does not support mode "Persistent"`) {
			t.Errorf("a persistent volume of an ephemeral driver: %v", err)
		}
	})
}

func TestSecretsReachTheDriverAndNoError(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		pv := persistent("pv", v1.ReadWriteOnce)
		pv.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "ns", Name: "stage"}
		n.objects = csi.Static([]*v1.PersistentVolume{pv}, []*v1.PersistentVolumeClaim{claim("data", "pv")})
		n.objects.Secrets = secrets{"stage": "hunter2\"&"}
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Code: codes.Unauthenticated, Message: "password hunter2\"& is wrong" + strings.Repeat("!", 5000) + fmt.Sprintf(`{"password":%q}`, "hunter2\"&")})
		err := n.setUp(t.Context(), podOf("a", "data"))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "password [redacted] is wrong") || len(err.Error()) > 2000 {
			t.Errorf("%v", err)
		}
	})
}

type secrets map[string]string

func (s secrets) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	return &v1.Secret{Data: map[string][]byte{"password": []byte(s[name])}}, nil
}

func TestExpansionAndRepublish(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		grown := claim("data", "pv")
		grown.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		n.objects = csi.Static([]*v1.PersistentVolume{persistent("pv", v1.ReadWriteOnce)}, []*v1.PersistentVolumeClaim{grown})
		n.objects.Driver = func(context.Context, string) (*storagev1.CSIDriver, error) {
			yes := true
			return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{RequiresRepublish: &yes, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}}, nil
		}
		tokens := 0
		n.objects.Tokens = func(_ context.Context, pod csi.Pod, _ []storagev1.TokenRequest) (string, error) {
			tokens++
			return fmt.Sprintf("%s-token-%d", pod.ServiceAccount, tokens), nil
		}
		var expanded expansions
		n.config.Expansions = &expanded
		n.start()
		n.mustSetUp(podOf("a", "data"))
		time.Sleep(90 * time.Second)
		n.wantCalls("NodeStage handle-of-pv OK", "NodePublish handle-of-pv OK", "NodeExpand handle-of-pv OK", "NodePublish handle-of-pv OK")
		expanded.want(t, "expanding pv to 2147483648", "expanded pv to 2147483648: <nil>", "expanded pv to 2147483648: <nil>") // again, because the claim does not have the size
		if got := n.driver.Published()[0].VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"]; got != "robot-token-2" {
			t.Errorf("token %q, want a new one", got)
		}
		// A failed republish leaves the volume mounted.
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Code: codes.Unavailable, Times: 1})
		time.Sleep(time.Minute)
		must.Get(n.m.Locate(podOf("a", "data"), &podOf("a", "data").Spec.Volumes[0], ""))(t)
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		n.wantNothing()
	})
}

// resizable serves a volume and its claim. The volume has another capacity after the returned value has become true.
func (n *node) resizable(pv *v1.PersistentVolume, data *v1.PersistentVolumeClaim, capacity string) (resized *atomic.Bool) {
	n.objects = csi.Static([]*v1.PersistentVolume{pv}, []*v1.PersistentVolumeClaim{data})
	find := n.objects.Volume
	resized = &atomic.Bool{}
	n.objects.Volume = func(ctx context.Context, name string) (*v1.PersistentVolume, error) {
		pv, err := find(ctx, name)
		if err == nil && resized.Load() {
			pv = pv.DeepCopy()
			pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(capacity)
		}
		return pv, err
	}
	return resized
}

// expansions records expansions of volumes. Expanding fails for the size refused.
type expansions struct {
	mu      sync.Mutex
	lines   []string
	refused int64
}

func (e *expansions) Expanding(_ context.Context, volume string, bytes int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, fmt.Sprintf("expanding %s to %d", volume, bytes))
	if bytes == e.refused {
		return errors.New("the API server is unavailable")
	}
	return nil
}

func (e *expansions) Expanded(volume string, bytes int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprintf("expanded %s to %d: %v", volume, bytes, err)
	if errors.Is(err, csi.ErrInfeasible) {
		text += ", infeasible"
	}
	e.lines = append(e.lines, text)
}

// want checks the records since the last call.
func (e *expansions) want(t *testing.T, lines ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.lines, lines) {
		t.Errorf("expansions:\n%s\nwant:\n%s", strings.Join(e.lines, "\n"), strings.Join(lines, "\n"))
	}
	e.lines = nil
}

// A failed expansion is recorded before it is retried. An uncertain result is not recorded. A volume is not expanded while
// the start cannot be recorded, and another size is tried without back-off.
func TestExpansionsAreRecorded(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		pv, data := persistent("pv", v1.ReadWriteOnce), claim("data", "pv")
		data.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		shrunk := n.resizable(pv, data, "1536Mi")
		var record expansions
		n.config.Expansions = &record
		fail := func(code codes.Code, times int) {
			n.driver.Inject(csitest.Fault{Method: "NodeExpand", Code: code, Times: times})
		}
		fail(codes.Internal, 1)
		fail(codes.Unavailable, 1)
		fail(codes.OutOfRange, 20)
		n.start()
		n.mustSetUp(podOf("a", "data"))
		time.Sleep(4 * time.Second) // retries after 0.5, 1 and 2 s
		record.want(t, "expanding pv to 2147483648", "expanded pv to 2147483648: rpc error: code = Internal desc = Internal (NodeExpandVolume)",
			"expanding pv to 2147483648",
			"expanding pv to 2147483648", "expanded pv to 2147483648: rpc error: code = OutOfRange desc = OutOfRange (NodeExpandVolume), infeasible",
			"expanding pv to 2147483648", "expanded pv to 2147483648: rpc error: code = OutOfRange desc = OutOfRange (NodeExpandVolume), infeasible")

		record.mu.Lock()
		record.refused = 2 << 30
		record.mu.Unlock()
		calls := n.countCalls("NodeExpand")
		time.Sleep(10 * time.Minute)
		if got := n.countCalls("NodeExpand"); got != calls {
			t.Errorf("%d expansions that were not recorded", got-calls)
		}
		n.driver.Heal()
		shrunk.Store(true)
		time.Sleep(time.Minute) // within which the size is noticed; the back-off is two minutes
		record.mu.Lock()
		record.lines = record.lines[len(record.lines)-2:]
		record.mu.Unlock()
		record.want(t, "expanding pv to 1610612736", "expanded pv to 1610612736: <nil>")
		n.mustTearDown(podOf("a", "data"))
	})
}

// A volume whose size changes during its expansion is expanded again.
func TestSizeThatChangesDuringAnExpansion(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		pv, data := persistent("pv", v1.ReadWriteOnce), claim("data", "pv")
		data.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		grown := n.resizable(pv, data, "3Gi")
		var record expansions
		n.config.Expansions = &record
		n.driver.Inject(csitest.Fault{Method: "NodeExpand", Times: 1, Delay: 90 * time.Second})
		n.start()
		n.mustSetUp(podOf("a", "data"))
		time.Sleep(10 * time.Second)
		grown.Store(true)
		time.Sleep(100 * time.Second)
		record.want(t, "expanding pv to 2147483648", "expanded pv to 2147483648: <nil>", "expanding pv to 3221225472", "expanded pv to 3221225472: <nil>")
		n.mustTearDown(podOf("a", "data"))
	})
}

// A volume that grows while a pod uses it is expanded once, within a minute.
func TestExpansionOfAVolumeInUse(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		pv, data := persistent("pv", v1.ReadWriteOnce), claim("data", "pv")
		data.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		grown := n.resizable(pv, data, "5Gi")
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.settle()
		if got := n.countCalls("NodeExpand"); got > 0 {
			t.Errorf("%d expansions of a volume that has not grown", got)
		}
		grown.Store(true)
		n.settle()
		if got := n.countCalls("NodeExpand"); got != 1 {
			t.Errorf("%d expansions, want 1", got)
		}
	})
}
