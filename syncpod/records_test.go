package syncpod_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
)

// crashDuring runs an agent until a given call is about to return, and
// then starts another agent.
func (n *node) crashDuring(m critest.Method, container string, act func(ctx context.Context), adjust ...func(*syncpod.Config)) {
	n.Helper()
	ctx, crash := context.WithCancel(n.Context())
	defer crash()
	conn := n.conn
	stop := n.OnCall(func(_ int, c critest.Call) {
		if c.Method == m && c.Container == container {
			conn.Close() // first: an agent whose ctx ends cleans up, which a crashed one cannot
			crash()
		}
	})
	for ctx.Err() == nil {
		act(ctx)
		synctest.Wait()
	}
	stop()
	n.restart(adjust...)
}

// recorded makes agents that keep records.
func recorded(dir string) func(*syncpod.Config) {
	return func(c *syncpod.Config) { c.Parts.Records = syncpod.FileRecords{Dir: dir} }
}

// withRecords runs a test on a node whose agent has records in dir.
func withRecords(t *testing.T, test func(t *testing.T, n *node, dir string), adjust ...func(*critest.Config)) {
	t.Helper()
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(dir))
		test(t, n, dir)
	}, adjust...)
}

// recordIn reads a pod's record.
func recordIn(t *testing.T, dir string, pod types.UID) (r memory.Record, err error) {
	text, err := syncpod.FileRecords{Dir: dir}.LoadRecord(t.Context(), pod)
	if err == nil && text != nil {
		err = r.UnmarshalJSON(text)
	}
	return r, err
}

func never(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }

// K7: an agent restart half way through the end of a pod neither begins the
// grace period again nor the preStop handler.
func TestK7_RestartDuringTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		hook      string
		crash     time.Duration
		durable   bool
		want      time.Duration
		wantHooks int
	}{
		"the hook had ended":           {hook: "3", crash: 10 * time.Second, durable: true, want: 30 * time.Second, wantHooks: 1},
		"the hook had not ended":       {hook: "15", crash: 10 * time.Second, durable: true, want: 32 * time.Second, wantHooks: 2},
		"the grace period was over":    {hook: "3", crash: 29 * time.Second, durable: true, want: 36 * time.Second, wantHooks: 1},
		"without records all is again": {hook: "3", crash: 10 * time.Second, want: 45 * time.Second, wantHooks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				adjust := func(c *syncpod.Config) {
					if tc.durable {
						recorded(dir)(c)
					}
				}
				n.restart(adjust)
				pod := testPod(containers(preStop(ctr("app"), "sleep", tc.hook)))
				n.settle(pod, time.Minute)
				n.stubborn("app")
				began := time.Now()
				n.SyncTerminatingPod(giveUp(t, tc.crash), syncpod.Termination{Pod: pod})
				time.Sleep(5 * time.Second)
				n.restart(adjust)
				must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}))
				n.wantEnded()
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v\n%v", took, tc.want, n.Journal())
				}
				if ran := n.Journal().Count(critest.ExecSync); ran != tc.wantHooks {
					t.Errorf("the hook was run %d times, want %d", ran, tc.wantHooks)
				}
			})
		})
	}
}

// K1, K7: an agent ends while it stops a pod, as when a drain is interrupted, and
// then the pod must run again. A later stop has its
// full grace period, and the preStop handler runs.
func TestK7_AnEndThatWasCalledOffIsNotRemembered(t *testing.T) {
	for name, hookEnded := range map[string]bool{"before the hook": false, "after the hook": true} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(preStop(ctr("app"), "sleep", "3")))
				n.settle(pod, time.Minute)
				n.stubborn("app")
				stopping := time.Second
				if hookEnded {
					stopping = 5 * time.Second
				}
				ctx, crash := context.WithTimeout(t.Context(), stopping)
				defer crash()
				n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod})
				n.restart(recorded(dir))
				n.settle(pod, time.Minute)
				time.Sleep(time.Hour)
				n.sync(pod)
				n.restart(recorded(dir)) // the record does not contain it either
				hooks := n.Journal().Count(critest.ExecSync)
				if took := n.end(pod, nil); took != 30*time.Second {
					t.Errorf("took %v, want the 30s of its grace period\n%v", took, n.Journal())
				}
				n.wantEnded()
				if ran := n.Journal().Count(critest.ExecSync) - hooks; ran != 1 {
					t.Errorf("the hook was run %d times at its end, want once", ran)
				}
			})
		})
	}
}

// C5: a run-once container does not run again because the
// runtime has lost its record.
func TestC5_OnlyRunIsNotRepeated(t *testing.T) {
	for name, restarts := range map[string]bool{"same agent": false, "new agent": true} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(ctr("app"), ctr("b")), never)
				n.settle(pod, time.Minute)
				n.exit("app", 0)
				n.sync(pod)
				must(t, n.Remove(n.current("app").ID.ID))
				if restarts {
					n.restart(recorded(dir))
				}
				n.settle(pod, time.Minute)
				n.wantStates("b 0 running")
				if started := n.Journal().Container("app").Count(critest.StartContainer); started != 1 {
					t.Errorf("started %d times, want once\n%v", started, n.Journal())
				}
				if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 0 {
					t.Errorf("reported %+v, want its exit", c)
				}
				if n.events.count("ContainerRecordLost") != 0 {
					t.Errorf("events %q, want 0", n.events.all)
				}
			})
		})
	}
}

// C5: if its exit is unknown, it runs again, and that is reported.
func TestC5_SecondRunIsReported(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]int{v1.RestartPolicyNever: 1, v1.RestartPolicyAlways: 0} {
		bubble(t, func(t *testing.T, n *node) {
			pod := testPod(containers(ctr("app"), ctr("b")), func(p *v1.Pod) { p.Spec.RestartPolicy = policy })
			n.settle(pod, time.Minute)
			must(t, n.Remove(n.current("app").ID.ID))
			n.logs.last["app"] = 0
			n.restart()
			n.settle(pod, time.Minute)
			n.wantStates("app 1 running", "b 0 running")
			if n.events.count("ContainerRecordLost spec.containers{app}") != want {
				t.Errorf("%s: events %q, want %v", policy, n.events.all, want)
			}
		})
	}
}

// C5: the same holds if only the agent's record shows the start call, but not if
// the runtime has rejected the call.
func TestC5_OnlyAContainerThatMayHaveRunIsReportedAsRestarted(t *testing.T) {
	starts := faults.Match{Method: critest.StartContainer, Container: "app"}
	for name, tc := range map[string]struct {
		refusals []faults.Fault
		want     int
	}{
		"may have run": {[]faults.Fault{
			{Match: starts, When: faults.After, Err: status.Error(codes.Unavailable, "gone")},
			{Match: faults.Match{Method: critest.ListContainers}, Skip: 1, Err: errBroken}, // that after the start
		}, 1},
		"was refused": {[]faults.Fault{{Match: starts, Err: errBroken}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(ctr("app"), ctr("b")), never)
				for _, f := range tc.refusals {
					n.Fault(f)
				}
				n.SyncPod(t.Context(), pod, nil)
				must(t, n.Remove(n.current("app").ID.ID))
				n.restart(recorded(dir))
				n.settle(pod, time.Minute)
				if c := n.current("app"); c.State != runtime.ContainerRunning {
					t.Errorf("app is %v, want %v", c.State, runtime.ContainerRunning)
				}
				if told := n.events.count("ContainerRecordLost spec.containers{app}"); told != tc.want {
					t.Errorf("%d events, want %d: %q", told, tc.want, n.events.all)
				}
			})
		})
	}
}

// C6: a postStart handler that a crash has cut short, or kept from running, runs.
func TestC6_HookAfterACrash(t *testing.T) {
	for _, m := range []critest.Method{critest.StartContainer, critest.CreateContainer, critest.ExecSync} {
		t.Run("crash after "+string(m), func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(postStart(ctr("app"), "touch", "/hooked")))
				n.crashDuring(m, "app", func(ctx context.Context) { n.SyncPod(ctx, pod, nil) }, recorded(dir))
				n.settle(pod, time.Minute)
				for range 3 {
					n.sync(pod)
				}
				if c := n.current("app"); c.State != runtime.ContainerRunning {
					t.Errorf("app is %v, want %v", c.State, runtime.ContainerRunning)
				}
				id, hooked := n.current("app").ID.ID, 0
				for _, c := range n.Journal().Of(critest.ExecSync) {
					if c.ContainerID == id && c.Err == nil {
						hooked++
					}
				}
				want := 1
				if m == critest.ExecSync {
					want = 2 // its end was not seen
				}
				for _, ip := range n.hooks.ips {
					if ip != n.status().IPs()[0] {
						t.Errorf("the hook got the address %q", ip)
					}
				}
				if hooked != want {
					t.Errorf("the hook of what runs was run %d times, want %d\n%v", hooked, want, n.Journal())
				}
			})
		})
	}
}

// C6: the next agent does not run a finished hook again.
func TestC6_EndedHookIsNotRunAgain(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		pod := testPod(containers(postStart(ctr("app"), "touch", "/hooked")))
		n.sync(pod) // and no more than that
		n.restart(recorded(dir))
		n.sync(pod)
		if ran := n.Journal().Count(critest.ExecSync); ran != 1 {
			t.Errorf("the hook ran %d times, want once", ran)
		}
	})
}

func ephemeral(name string, command ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(ctr(name, command...))}}
	}
}

// C11: an ephemeral container runs once, even if its record is lost.
func TestC11_EphemeralRunsOnce(t *testing.T) {
	for name, next := range map[string]func(n *node, dir string){
		"same agent":           func(*node, string) {},
		"new agent, records":   func(n *node, dir string) { n.restart(recorded(dir)) },
		"new agent, only logs": func(n *node, _ string) { n.logs.last["debug"] = 0; n.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(ephemeral("debug", "true"))
				n.settle(pod, time.Minute)
				n.wantStates("app 0 running", "debug 0 exited")
				must(t, n.Remove(n.current("debug").ID.ID))
				next(n, dir)
				n.settle(pod, time.Minute)
				n.wantStates("app 0 running")
			})
		})
	}
}

// C11: one whose start was refused has not run.
func TestC11_RefusedStartIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "debug"}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(ephemeral("debug", "true")), nil)
		n.settle(testPod(ephemeral("debug", "true")), time.Minute)
		n.wantStates("app 0 running", "debug 0 exited")
	})
}

// T2: an exit code outlives the agent that saw it.
func TestT2_ExitCodeOutlivesTheAgent(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		pod := testPod(containers(ctr("app"), ctr("b")), never)
		n.settle(pod, time.Minute)
		n.exit("app", 42)
		n.sync(pod)
		must(t, n.Remove(n.current("app").ID.ID))
		n.restart(recorded(dir))
		n.end(pod, nil)
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 42 {
			t.Errorf("reported %+v, want exit code 42", c)
		}
	})
}

// T2: the same holds for a container that was first seen during the pod's stop.
func TestT2_ExitCodeOfTheStopOutlivesTheAgent(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		n.settle(testPod(), time.Minute)
		n.end(testPod(), nil)
		must(t, n.Remove(n.current("app").ID.ID))
		n.restart(recorded(dir))
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), n.status()))
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 143 {
			t.Errorf("reported %+v, want exit code 143", c)
		}
	})
}

// C2: the number of an instance that was removed before it ever ran leaves no
// trace but the record.
func TestC2_RecordedAttemptsAreNotUsedAgain(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		n.sync(testPod())
		n.wantStates()
		n.restart(recorded(dir))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// A pod that has ended leaves no record.
func TestRecordIsDeletedWithThePod(t *testing.T) {
	records := syncpod.FileRecords{Dir: t.TempDir()}
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(records.Dir))
		n.settle(testPod(), time.Minute)
		if all, err := records.ListRecords(t.Context()); err != nil || !slices.Equal(all, []types.UID{podUID}) {
			t.Errorf("records %v, %v, want %v and no error", all, err, []types.UID{podUID})
		}
		n.end(testPod(), nil)
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
		if all, err := records.ListRecords(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records %v, %v, want none", all, err)
		}
	})
}

// brokenRecords fail, or hang until the timeout.
type brokenRecords struct{ hang bool }

var errNoDisk = errors.New("no space left on device")

func (b brokenRecords) fail(ctx context.Context) error {
	if b.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return errNoDisk
}

func (b brokenRecords) LoadRecord(context.Context, types.UID) ([]byte, error) { return nil, nil }
func (b brokenRecords) SaveRecord(ctx context.Context, _ types.UID, _ []byte) error {
	return b.fail(ctx)
}
func (b brokenRecords) DeleteRecord(ctx context.Context, _ types.UID) error { return b.fail(ctx) }
func (b brokenRecords) ListRecords(ctx context.Context) ([]types.UID, error) {
	return nil, b.fail(ctx)
}

// Failures of the records do not affect the pod.
func TestE4_BrokenRecordsHoldNothingUp(t *testing.T) {
	for _, hang := range []bool{false, true} {
		bubble(t, func(t *testing.T, n *node) {
			n.restart(func(c *syncpod.Config) { c.Parts.Records = brokenRecords{hang} })
			pod := testPod(containers(preStop(ctr("app"), "sleep", "12")))
			n.settle(pod, time.Minute)
			n.stubborn("app")
			if took := n.end(pod, nil); took > 32*time.Second {
				t.Errorf("took %v, want 32s at most", took)
			}
			must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
			began := time.Now()
			if err := n.Forget(t.Context(), podUID); err == nil || time.Since(began) > time.Second {
				t.Errorf("forgotten: %v after %v", err, time.Since(began))
			}
		})
	}
}

// A Syncer without records has none.
func TestNoRecords(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		if all, err := n.RecordedPods(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records %v, %v, want none", all, err)
		}
	})
}

// E4: a record that a power failure has damaged is replaced.
func TestE4_LostRecordIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		records := syncpod.FileRecords{Dir: t.TempDir()}
		pod := testPod(containers(ctr("app")))
		path := filepath.Join(records.Dir, string(pod.UID)+".json")
		must(t, os.WriteFile(path, nil, 0o600))
		n.restart(func(c *syncpod.Config) { c.Parts.Records = records })
		n.settle(pod, time.Minute)
		if r, err := recordIn(t, records.Dir, pod.UID); err != nil || !slices.Equal(r.EverStarted, []string{"app"}) {
			t.Errorf("record %+v, %v, want one that says that app has run", r, err)
		}
	})
}

// F14, W2: abandoned work that returns after the removal of the pod leaves no
// record, which a new pod with its UID would take for its own.
func TestLateWorkLeavesNoRecord(t *testing.T) {
	records := syncpod.FileRecords{Dir: t.TempDir()}
	bubble(t, func(t *testing.T, n *node) {
		hooked, release := make(chan struct{}), make(chan struct{})
		n.restart(recorded(records.Dir), func(c *syncpod.Config) {
			c.Parts.Hooks = hooksFunc(func(context.Context, handler.Request) (handler.Result, error) {
				close(hooked)
				<-release // ignores its context
				return handler.Result{}, nil
			})
		})
		pod := testPod(containers(postStart(ctr("app"), "true")))
		ctx, giveUp := context.WithCancel(t.Context())
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			n.SyncPod(ctx, pod, nil)
		}()
		<-hooked
		giveUp()
		n.end(pod, nil)
		must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
		close(release)
		<-returned
		if all, err := records.ListRecords(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records %v, %v, want none", all, err)
		}
	})
}
