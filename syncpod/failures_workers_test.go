package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// The tests below need the Syncer together with its workers.

// deletedPod is a pod that its source has deleted.
func deletedPod(pod *v1.Pod, seconds int64) *v1.Pod {
	deleted := pod.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(seconds) * time.Second)}
	deleted.DeletionGracePeriodSeconds = &seconds
	return deleted
}

func (c *crew) update(t podworkers.UpdateType, pod *v1.Pod) {
	c.Helper()
	c.Must(c.workers.UpdatePod(podworkers.Update{Type: t, Pod: pod}))
}

// finished waits for a pod to be over, without telling the workers anything.
func (c *crew) finished(within time.Duration) (took time.Duration) {
	c.Helper()
	began := time.Now()
	for !c.workers.State(podUID).ShouldBeFinished {
		if took = time.Since(began); took > within {
			c.Fatalf("not finished after %v\n%v", took, c.Journal())
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

// startsNothing fails the test if anything was made or started since a call.
func (n *node) startsNothing(since int) {
	n.Helper()
	if late := n.Journal().After(since).Of(critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer); len(late) > 0 {
		n.Errorf("calls after the stop of the pod had begun:\n%v", late)
	}
}

// W1: after a request to stop a pod, no container starts, regardless of further updates and
// of the start in progress.
func TestW1_NothingIsStartedOnceAPodIsToStop(t *testing.T) {
	for _, m := range []critest.Method{critest.RunPodSandbox, critest.PullImage, critest.CreateContainer, critest.StartContainer} {
		for name, news := range map[string][]podworkers.UpdateType{
			"kill":              {podworkers.Kill},
			"kill, then update": {podworkers.Kill, podworkers.Changed},
			"update, then kill": {podworkers.Changed, podworkers.Kill},
			"kill, then sync":   {podworkers.Kill, podworkers.Sync},
		} {
			for _, deaf := range []bool{false, true} {
				t.Run(string(m)+"/"+name, func(t *testing.T) {
					bubble(t, func(t *testing.T, n *node) {
						gate := &faults.Gate{}
						n.Fault(faults.Fault{Match: faults.Match{Method: m}, When: faults.Midway, Hang: gate, IgnoreCancel: deaf})
						c := n.hire()
						defer c.dismiss()
						pod := testPod(inits(sidecar("proxy")), containers(ctr("app"), ctr("b")))
						c.update(podworkers.Create, pod)
						time.Sleep(5 * time.Second)
						for _, type_ := range news {
							c.update(type_, pod)
						}
						asked := len(n.Journal())
						time.Sleep(20 * time.Second)
						gate.Open()
						time.Sleep(5 * time.Minute)
						n.startsNothing(asked)
						if deaf {
							must(t, c.workers.KillRuntimePod(podworkers.RuntimePod{UID: podUID}))
							time.Sleep(time.Minute)
						}
						n.wantEnded()
					})
				})
			}
		}
	}
}

// W2: a pod's stop begins at once, even if the runtime ignores the
// cancellation of its calls.
func TestW2_EndBeginsAtOnce(t *testing.T) {
	for _, m := range []critest.Method{critest.PullImage, critest.CreateContainer, critest.StartContainer, critest.ExecSync} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				gate := &faults.Gate{}
				defer gate.Open()
				n.Fault(faults.Fault{Match: faults.Match{Method: m, Container: only(m, "app"), Image: onlyImage(m)}, When: faults.Midway, Hang: gate, IgnoreCancel: true})
				c := n.hire()
				defer c.dismiss()
				pod := testPod(containers(ctr("first"), postStart(ctr("app"), "true")))
				c.update(podworkers.Create, pod)
				time.Sleep(30 * time.Second)
				asked := len(n.Journal())
				began := time.Now()
				c.update(podworkers.Kill, pod)
				time.Sleep(time.Minute)
				stops := n.Journal().After(asked).Container("first").Of(critest.StopContainer)
				if m == critest.PullImage {
					stops = n.Journal().After(asked).Of(critest.StopPodSandbox)
				}
				if len(stops) == 0 || stops[0].Start.Sub(began) > 2*time.Second {
					t.Errorf("stopped by\n%v\nwant within 2 s of %v", stops, began)
				}
				n.startsNothing(asked)
			})
		})
	}
}

func only(m critest.Method, container string) string {
	if m == critest.PullImage {
		return ""
	}
	return container
}

func onlyImage(m critest.Method) string {
	if m != critest.PullImage {
		return ""
	}
	return "registry.test/app:1"
}

// W3: asked a second time with less, the pod ends by the second deadline.
func TestW3_SecondRequestWithLess(t *testing.T) {
	for name, hang := range map[string]bool{"runtime listens": false, "runtime is deaf to a second stop": true} {
		for _, hook := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					pod := testPod()
					if hook {
						pod = testPod(containers(preStop(ctr("app"), "sleep", "1000")))
					}
					c := n.hire()
					defer c.dismiss()
					c.update(podworkers.Create, pod)
					time.Sleep(10 * time.Second)
					n.stubborn("app")
					if hang {
						n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Skip: 1, Times: faults.Always, Hang: &faults.Gate{}})
					}
					c.update(podworkers.Changed, deletedPod(pod, 120))
					time.Sleep(5 * time.Second)
					c.update(podworkers.Changed, deletedPod(pod, 10))
					if took := c.finished(5 * time.Minute); took > 12*time.Second {
						t.Errorf("ended %v after the second request, want 12s at most\n%v", took, n.Journal())
					}
					n.wantEnded()
				})
			})
		}
	}
}

// W4: after runtime errors, a pod stops without a further update.
func TestW4_EndsWithoutFurtherNews(t *testing.T) {
	for name, broken := range map[string][]critest.Method{
		"stop":         {critest.StopContainer, critest.StopPodSandbox},
		"sandbox stop": {critest.StopPodSandbox},
		"look":         {critest.ListContainers},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				c := n.hire()
				defer c.dismiss()
				c.update(podworkers.Create, testPod())
				time.Sleep(10 * time.Second)
				var injected []faults.Injected
				for _, m := range broken {
					injected = append(injected, n.Fault(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Err: errBroken}))
				}
				c.update(podworkers.Kill, testPod())
				time.Sleep(10 * time.Minute)
				if c.workers.State(podUID).ShouldBeFinished {
					t.Fatal("finished although the runtime is broken")
				}
				for _, f := range injected {
					f.Remove()
				}
				// At most: the pause after the last attempt to stop the sandbox, the
				// wait for the next work with its random part, and one stop.
				limit := 15*time.Second + 30*time.Second*3/2 + 2*time.Second
				if took := c.finished(time.Hour); took > limit {
					t.Errorf("ended %v after the runtime was well again", took)
				}
				n.wantEnded()
			})
		})
	}
}

// W4: a container that the runtime refuses to stop, and that has exited with its
// sandbox, does not prevent the pod's end: the last inspection has shown the exit.
func TestW4_StoppedWithTheSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: errBroken})
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: time.Now()}))
		n.wantEnded()
	})
}

// K1: the time of the whole way, from the request to the end.
func TestK1_WithWorkers(t *testing.T) {
	for _, g := range []int64{1, 2, 30} {
		bubble(t, func(t *testing.T, n *node) {
			c := n.hire()
			defer c.dismiss()
			pod := testPod(inits(sidecar("s1")), containers(preStop(ctr("app"), "sleep", "1000")))
			n.play(c, []*v1.Pod{pod}, func(n *node) error { return n.runs(podUID, "app") })
			n.stubborn("app", "s1")
			began := time.Now()
			if err := c.workers.KillPod(t.Context(), podworkers.Update{Pod: pod, Stop: &podworkers.StopRequest{GracePeriodSeconds: &g}}); err != nil {
				t.Fatal(err)
			}
			if took, limit := time.Since(began), time.Duration(g+2)*time.Second; took > limit {
				t.Errorf("grace %d: took %v", g, took)
			}
			n.wantEnded()
		})
	}
}

// K4: a pod that cannot be killed is never reported as stopped, and does not prevent others
// from stopping.
func TestK4_UnkillableIsNotFinished(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		c := n.hire()
		defer c.dismiss()
		c.update(podworkers.Create, testPod())
		time.Sleep(10 * time.Second)
		id := n.current("app").ID.ID
		must(t, n.SetIgnoreSignals(id, faults.IgnoreSignals{Term: true, Kill: true}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := c.workers.KillPod(ctx, podworkers.Update{Pod: testPod()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if c.workers.State(podUID).ShouldBeFinished {
			t.Error("finished although it runs")
		}
		if stops := n.Journal().Count(critest.StopContainer); stops > 60 {
			t.Errorf("%d stops in ten minutes", stops)
		}
		must(t, n.SetIgnoreSignals(id, faults.IgnoreSignals{}))
		synctest.Wait()
		c.finished(5 * time.Minute)
		n.wantEnded()
	})
}

// K3: while the sandbox cannot be stopped, the container exits are reported, and the
// stop is retried with back-off.
func TestK3_SandboxThatDoesNotStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		c := n.hire()
		defer c.dismiss()
		c.update(podworkers.Create, testPod())
		time.Sleep(10 * time.Second)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: errBroken})
		c.update(podworkers.Kill, testPod())
		time.Sleep(10 * time.Minute)
		if end := n.report.container("app").State.Terminated; end == nil || end.ExitCode != 143 {
			t.Errorf("reported %+v, want exit code 143", n.report.container("app").State)
		}
		if tries := n.Journal().Count(critest.StopPodSandbox); tries < 10 || tries > 80 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		fault.Remove()
		c.finished(time.Minute)
		n.wantEnded()
	})
}
