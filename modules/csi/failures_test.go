package csi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func (n *node) countCalls(method string) (count int) {
	for _, c := range n.driver.Calls() {
		if c.Method == method {
			count++
		}
	}
	return count
}

// The next agent does not unmount volumes of a running pod, even if the pod's claim cannot be read.
func TestV2_NothingIsUnmountedWhileTheAPIServerIsUnavailable(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		a := podOf("a", "data")
		n.mustSetUp(a)
		n.objects.Claim = func(context.Context, string, string) (*v1.PersistentVolumeClaim, error) {
			return nil, errors.New("connection refused")
		}
		n.start()
		n.settle()
		n.mustSetUp(a) // a container of the pod is started again
		if at, err := n.m.Locate(a, &a.Spec.Volumes[0], n.dir(a)); err != nil || at.Path == "" {
			t.Errorf("%+v, %v", at, err)
		}
		n.wantCalls("NodeStage handle-of-pv OK", "NodePublish handle-of-pv OK")
		if err := n.setUp(t.Context(), podOf("b", "data")); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a new pod: %v", err)
		}
		n.mustTearDown(a)
		n.settle()
		n.wantNothing()
	})
}

func TestV3_AfterAnUncertainUnstageTheVolumeIsStagedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
				n.start()
				n.mustSetUp(podOf("a", "data"))
				n.driver.Inject(csitest.Fault{Method: "NodeUnstage", Code: code, Done: true, Times: 1})
				n.mustTearDown(podOf("a", "data"))
				time.Sleep(time.Millisecond)
				n.mustSetUp(podOf("b", "data"))
				n.wantCalls("NodeStage handle-of-pv OK", "NodePublish handle-of-pv OK", "NodeUnpublish handle-of-pv OK", "NodeUnstage handle-of-pv "+code.String(),
					"NodeStage handle-of-pv OK", "NodePublish handle-of-pv OK")
			})
		})
	}
}

// If a stage succeeds after its caller has timed out, it is undone once no pod needs the volume.
func TestV4_AStageThatTimedOutIsUndone(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Delay: 3 * time.Minute, Deaf: true, Times: 1})
		if err := n.setUp(t.Context(), podOf("a", "data")); err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
			t.Errorf("%v", err)
		}
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		if n.countCalls("NodeUnstage") == 0 || n.countCalls("NodePublish") > 0 {
			t.Errorf("%v", n.driver.Calls())
		}
		n.wantNothing()
	})
}

func TestV5_TheNextAgentUnstages(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.driver.Inject(csitest.Fault{Method: "NodeUnstage", Delay: time.Hour, Times: 1})
		n.mustTearDown(podOf("a", "data"))
		n.start() // while the call is under way
		n.settle()
		n.wantNothing()
	})
}

// While a call on a volume may still be in progress in the driver, the volume is not published.
func TestV6_CallsOnAVolumeDoNotOvertakeEachOther(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.driver.Inject(csitest.Fault{Method: "NodeUnstage", Delay: 5 * time.Minute, Deaf: true, Times: 1})
		n.mustTearDown(podOf("a", "data"))
		time.Sleep(time.Second)
		began := time.Now()
		for n.setUp(t.Context(), podOf("b", "data")) != nil {
		}
		if took := time.Since(began); took < 4*time.Minute {
			t.Errorf("the volume was mounted after %v, while the driver unstaged it", took)
		}
	})
}

// InUse lists a volume that may be mounted until the driver has confirmed that it is not.
func TestV7_AVolumeIsInUseUntilItIsUnstaged(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.driver.Inject(csitest.Fault{Method: "NodeUnstage", Code: codes.Internal, Times: 5})
		n.mustTearDown(podOf("a", "data"))
		for range 2 {
			time.Sleep(time.Second)
			if len(n.m.InUse()) != 1 {
				t.Errorf("in use: %v, while the volume is staged", n.m.InUse())
			}
			n.start()
		}
		n.settle()
		n.wantNothing()
	})
}

func TestV8_ADamagedRecordKeepsNoPodFromItsVolume(t *testing.T) {
	for name, damage := range map[string]string{"lost": "", "cut": `{"Source":`, "empty": "{}", "null pod": `{"Pods":{"a":null}}`,
		"too large": strings.Repeat(" ", 1<<20) + "{}"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
				n.start()
				a := podOf("a", "data")
				n.mustSetUp(a)
				n.kill()
				records, _ := filepath.Glob(filepath.Join(n.root, "csi/*.json"))
				if len(records) != 1 {
					t.Fatalf("records: %q", records)
				}
				err := os.WriteFile(records[0], []byte(damage), 0o600)
				if name == "lost" {
					err = os.Remove(records[0])
				}
				must.Do(t, err)
				n.start()
				n.mustSetUp(a)
				n.mustTearDown(a)
				n.settle()
				n.wantNothing()
			})
		})
	}
}

// A pod that was deleted while no agent ran is torn down by its UID alone.
func TestV9_VolumesOfPodsThatWentWhileNoAgentRan(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.mustSetUp(podOf("b", "mine"))
		n.objects.Claim, n.objects.Volume = nil, nil
		n.start()
		n.mustTearDown(podOf("a", "data"))
		n.mustTearDown(podOf("b", "mine"))
		n.mustTearDown(podOf("c", "unknown"))
		n.settle()
		n.wantNothing()
	})
}

// After a reboot the agent mounts volumes again, although the records say that they are mounted.
func TestV10_AfterARebootVolumesAreMountedAgain(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.kill()
		records, _ := filepath.Glob(filepath.Join(n.root, "csi/*.json"))
		text := must.Get(os.ReadFile(records[0]))(t)
		_, rest, _ := strings.Cut(string(text), `"Source"`)
		must.Do(t, os.WriteFile(records[0], []byte(`{"Boot":"another","Source"`+rest), 0o600))
		n.start()
		n.mustSetUp(podOf("a", "data"))
		if stages, publishes := n.countCalls("NodeStage"), n.countCalls("NodePublish"); stages != 2 || publishes != 2 {
			t.Errorf("%d stages and %d publishes, want each again", stages, publishes)
		}
		n.mustTearDown(podOf("a", "data"))
		n.settle()
		n.wantNothing()
	})
}

// A pod that ended while it waited for its volume does not get it from the next agent, and does not wait for steps of
// other pods.
func TestV12_APodThatOnlyWaitedGetsNoVolumeLater(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Code: codes.Unavailable, Times: 1})
		n.driver.Inject(csitest.Fault{Method: "NodePublish", Delay: time.Minute, Times: 1})
		a, b := podOf("a", "mine"), podOf("b", "mine")
		if err := n.setUp(t.Context(), a); err == nil {
			t.Error("no error, although the driver is unavailable")
		}
		if err := n.setUp(t.Context(), b); err == nil || !strings.Contains(err.Error(), "ReadWriteOncePod") {
			t.Errorf("%v", err)
		}
		began := time.Now()
		n.mustTearDown(b) // while the volume is published for a
		if took := time.Since(began); took > 0 {
			t.Errorf("the end of a pod without a volume took %v", took)
		}
		n.mustSetUp(a)
		n.kill()
		records, _ := filepath.Glob(filepath.Join(n.root, "csi/*.json"))
		for _, path := range records { // the agent was killed before it wrote that b has ended
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(text), `"Pods":{`, `"Pods":{"b":{"Names":["vol"]},`, 1)), 0o600)
			}
			must.Do(t, err)
		}
		n.start()
		n.mustTearDown(a)
		n.settle()
		n.wantNothing()
	})
}

// The agent is killed and the driver fails at random moments. In the end every volume that a pod wants is mounted, no
// volume is unmounted while a container uses it, and after the end of all pods nothing is left.
func TestV11_KilledAtAnyMoment(t *testing.T) {
	seeds := uint64(30)
	if text := os.Getenv("PODSYNC_CSI_SEEDS"); text != "" {
		must.Get(fmt.Sscan(text, &seeds))(t)
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { randomLife(t, seed) })
	}
}

func randomLife(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	n := newNode(t, csitest.Config{NoStage: rng.IntN(4) == 0})
	var mu sync.Mutex
	used := map[string]bool{}
	n.driver.SetInUse(func(target string) bool { mu.Lock(); defer mu.Unlock(); return used[target] })
	use := func(pod *v1.Pod, is bool) {
		mu.Lock()
		defer mu.Unlock()
		used[filepath.Join(n.dir(pod), "volumes/kubernetes.io~csi/pv/mount")] = is
	}
	n.start()
	methods := []string{"NodeStage", "NodePublish", "NodeUnpublish", "NodeUnstage"}
	errs := []codes.Code{codes.OK, codes.Internal, codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.InvalidArgument}
	pods := []*v1.Pod{podOf("a", "data"), podOf("b", "data"), podOf("c", "data")}
	runs := map[*v1.Pod]bool{}
	for range 25 {
		pod := pods[rng.IntN(len(pods))]
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(5000))*time.Millisecond)
		switch rng.IntN(5) {
		case 0:
			n.driver.Inject(csitest.Fault{Method: methods[rng.IntN(4)], Times: 1 + rng.IntN(3), Code: errs[rng.IntN(len(errs))], Done: rng.IntN(2) == 0,
				Deaf: rng.IntN(3) == 0, Delay: time.Duration(rng.IntN(4)*rng.IntN(60)) * time.Second})
		case 1:
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			n.start()
		case 2, 3:
			if n.setUp(ctx, pod) == nil {
				runs[pod] = true
				use(pod, true)
			}
		case 4:
			use(pod, false)
			delete(runs, pod)
			_ = n.m.TearDown(ctx, pod.UID, n.dir(pod)) // it is called again
		}
		cancel()
	}
	n.driver.Heal()
	n.start()
	n.settle()
	for pod := range runs {
		n.mustSetUp(pod)
	}
	if _, published := n.driver.Volumes(); published < len(runs) {
		t.Errorf("seed %d: %d pods run, and %d have the volume", seed, len(runs), published)
	}
	for _, pod := range pods {
		use(pod, false)
		for n.m.TearDown(t.Context(), pod.UID, n.dir(pod)) != nil {
		}
	}
	n.settle()
	n.wantNothing()
	if t.Failed() {
		t.Fatalf("seed %d: %v", seed, slices.Clone(n.driver.Calls()))
	}
}
