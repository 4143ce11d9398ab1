package syncpod_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// wantStarts checks how often a container was started, regardless of the results.
func (n *node) wantStarts(container string, want int) {
	n.Helper()
	if got := n.Journal().Container(container).Count(critest.StartContainer); got != want {
		n.Errorf("%s was started %d times, want %d\n%v", container, got, want, n.Journal())
	}
}

// live syncs a pod every second for a minute, and stops it when it has finished.
func (n *node) live(pod *v1.Pod) {
	n.Helper()
	for range 60 {
		if r, _ := n.SyncPod(n.Context(), pod, nil); r.Terminal {
			n.end(pod, nil)
			return
		}
		time.Sleep(time.Second)
	}
}

// wantLost checks that a container is reported as terminated with an unknown exit.
func (n *node) wantLost(container string) {
	n.Helper()
	s := n.report.container(container)
	if end := s.State.Terminated; end == nil || end.Reason != string(apistatus.StatusUnknown) || end.ContainerID != "" || s.RestartCount != 0 {
		n.Errorf("the state of %s is %+v, want a lost container", container, s)
	}
}

// losses are ways in which a runtime loses its record of the container app.
func losses() map[string]func(*node) {
	return map[string]func(*node){
		"its record": func(n *node) { n.Must(n.Remove(n.current("app").ID.ID)) },
		"all records": func(n *node) {
			n.Must(n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
			time.Sleep(time.Second)
		},
		"its record, and the sandbox": func(n *node) {
			n.Must(n.Remove(n.current("app").ID.ID))
			n.Must(n.Restart(faults.Restart{Sandboxes: faults.EffectStopped}))
			time.Sleep(time.Second)
		},
	}
}

// C5: a start has succeeded, and the runtime loses the container before the next
// inspection. The container is not started again, and is reported with an unknown exit.
func TestC5_StartedAndLost(t *testing.T) {
	for loss, lose := range losses() {
		for who, restarts := range map[string]bool{"same agent": false, "new agent": true} {
			t.Run(loss+", "+who, func(t *testing.T) {
				withRecords(t, func(t *testing.T, n *node, dir string) {
					n.sync(testPod(never)) // and no more than that
					lose(n)
					if restarts {
						n.restart(recorded(dir))
					}
					n.live(testPod(never))
					n.wantStarts("app", 1)
					n.wantLost("app")
					if phase := n.report.last().Phase; phase != v1.PodFailed {
						t.Errorf("the pod is %s", phase)
					}
				})
			})
		}
	}
}

// C5: the same holds for a container whose exit was seen.
func TestC5_ExitedAndLostWithTheSandbox(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		pod := testPod(containers(ctr("app", "true"), ctr("b")), never)
		n.settle(pod, time.Minute)
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
		n.restart(recorded(dir))
		n.live(pod)
		n.wantStarts("app", 1)
		n.wantStarts("b", 1)
		n.wantLost("b")
		if end := n.report.container("app").State.Terminated; end == nil || end.ExitCode != 0 {
			t.Errorf("the end of app is reported as %+v", end)
		}
	})
}

// C5: it is known although the agent is killed while the next container of the pod is
// still on its way, or while the container's own handler runs.
func TestC5_StartIsRecordedWithItsAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*v1.Pod)
		hanging critest.Method
	}{
		"the next image is pulled": {containers(ctr("app"), ctr("b")), critest.PullImage},
		"the handler runs":         {containers(postStart(ctr("app"), "sleep", "50")), critest.ExecSync},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				w := &watchedRecords{}
				n.restart(watching(w, dir))
				pod := testPod(tc.change, never)
				hang := faults.Match{Method: tc.hanging}
				if tc.hanging == critest.PullImage {
					hang.Image = "registry.test/b:1"
				}
				n.Fault(faults.Fault{Match: hang, Delay: time.Hour})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, func() { w.dead.Store(true); cancel() })
				n.SyncPod(ctx, pod, nil)
				n.wantStarts("app", 1)
				must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
				n.restart(recorded(dir))
				n.live(pod)
				n.wantStarts("app", 1)
			})
		})
	}
}

// C5: if the answer of a start and the container are both lost, the result is unknown. The container is started
// again, and that is reported.
func TestC5_StartWithoutAnAnswerIsRepeated(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		must(t, n.cutStart(testPod(never), "app"))
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
		n.restart(recorded(dir))
		n.settle(testPod(never), time.Minute)
		n.wantStarts("app", 2)
		if n.events.count("ContainerRecordLost spec.containers{app}") != 1 {
			t.Errorf("events %q, want 1", n.events.all)
		}
	})
}

// C5: a status that another component has read shows the run, even during work on the pod.
func TestC5_ObservedDuringTheSync(t *testing.T) {
	for name, restarts := range map[string]bool{"same agent": false, "new agent": true} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(never)
				n.Fault(faults.Fault{
					Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: status.Error(codes.Unavailable, "gone"),
				})
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Skip: 1, Err: errBroken}) // that after the start
				n.SyncPod(t.Context(), pod, nil)
				n.Observe(t.Context(), n.status())
				must(t, n.Remove(n.current("app").ID.ID))
				if restarts {
					n.restart(recorded(dir))
				}
				n.live(pod)
				n.wantStarts("app", 1)
			})
		})
	}
}

// T2: it shows the exit code, too. Neither later nor earlier statuses
// replace it.
func TestT2_ObservedDuringTheSync(t *testing.T) {
	for name, restarts := range map[string]bool{"same agent": false, "new agent": true} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(ctr("app"), ctr("b")))
				n.settle(pod, time.Minute)
				before := n.status()
				n.exit("app", 42)
				n.Observe(t.Context(), n.status())
				must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) { s.ExitCode, s.Message = 255, "bye" }))
				n.Observe(t.Context(), n.status())
				n.Observe(t.Context(), before)
				must(t, n.Remove(n.current("app").ID.ID))
				if restarts {
					n.restart(recorded(dir))
				}
				n.settle(pod, time.Minute)
				if end := n.report.container("app").LastTerminationState.Terminated; end == nil || end.ExitCode != 42 || end.Message != "bye" && !restarts {
					t.Errorf("the end of app is reported as %+v", end)
				}
			})
		})
	}
}

// F14: an interrupted start does not count as a run, regardless of who reads the status.
func TestF14_ObservedCutStartIsNoRun(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		must(t, n.cutStart(testPod(never), "app"))
		n.Observe(t.Context(), n.status())
		must(t, n.Remove(n.current("app").ID.ID))
		n.restart(recorded(dir))
		n.settle(testPod(never), time.Minute)
		n.wantStates("app 1 running")
	})
}

// C5: a start without an answer is repeated also by a pod that has lost its sandbox, with
// its init containers.
func TestC5_StartWithoutAnAnswerIsRepeatedInANewSandbox(t *testing.T) {
	for name, lost := range map[string]faults.RestartEffect{"stopped": faults.EffectStopped, "gone": faults.EffectRemoved} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(inits(ctr("init", "true")), never)
				must(t, n.cutStart(pod, "app"))
				must(t, n.Restart(faults.Restart{Sandboxes: lost, Containers: faults.EffectRemoved}))
				time.Sleep(time.Second)
				n.restart(recorded(dir))
				n.live(pod)
				n.wantStates("app 1 running", "init 1 exited")
			})
		})
	}
}

// S3: a pod that may not restart does not fail because its init container is in an unknown
// state. The container is stopped, and the pod starts over if it has succeeded.
func TestS3_UnknownInitContainerIsStoppedBeforeItIsJudged(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("init")), never)
		pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
		n.sync(pod)
		must(t, n.Restart(faults.Restart{Containers: faults.EffectUnknown}))
		time.Sleep(time.Second)
		if r := n.sync(pod); r.Terminal {
			t.Fatalf("it is over before it is known how the init container ended:\n%v", r.Plan)
		}
		must(t, n.EditContainer(n.current("init").ID.ID, func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 })) // it has exited
		n.live(pod)
		n.wantStarts("init", 2) // in a new sandbox
	})
}

// W11: the status of an unknown or removed pod is not stored.
func TestW11_ObservedPodIsNotRemembered(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		pod := testPod(containers(ctr("app", "true"), ctr("b")), never)
		n.settle(pod, time.Minute)
		n.end(pod, nil)
		ended := n.status()
		must(t, n.SyncTerminatedPod(t.Context(), pod, ended))
		n.Observe(t.Context(), ended)
		if all, err := (syncpod.FileRecords{Dir: dir}).ListRecords(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records %v, %v, want none", all, err)
		}
	})
}

// C5: a run-once container in an unknown state is stopped, and is
// not replaced. Its exit is reported once the runtime knows it.
func TestC5_UnknownStateIsStoppedAndNotRepeated(t *testing.T) {
	for name, forget := range map[string]func(*runtimeapi.ContainerStatus){
		"it is known when it was started": func(*runtimeapi.ContainerStatus) {},
		"the runtime has lost that":       func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(ctr("app"), ctr("b")), never)
				n.settle(pod, time.Minute)
				must(t, n.Restart(faults.Restart{Containers: faults.EffectUnknown}))
				for _, c := range n.status().Containers {
					must(t, n.EditContainer(c.ID.ID, forget))
				}
				n.restart(recorded(dir))
				n.live(pod)
				n.wantStates("app 0 exited", "b 0 exited")
				n.wantStarts("app", 1)
				if end := n.report.container("app").State.Terminated; end == nil || end.ContainerID == "" {
					t.Errorf("the end of app is reported as %+v", end)
				}
			})
		})
	}
}

// K5: a container that may restart is stopped and replaced.
func TestK5_UnknownStateIsStoppedAndRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.Restart(faults.Restart{Containers: faults.EffectUnknown}))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
	})
}

// C5: an agent is killed while it starts a container. The next agent finds the container created,
// and is about to remove it. The container starts meanwhile, and its run is seen and counts.
func TestC5_RanAfterAll(t *testing.T) {
	onFailure := func(p *v1.Pod) {
		p.Spec.RestartPolicy, p.Spec.Containers = v1.RestartPolicyOnFailure, []v1.Container{ctr("app", "true")}
	}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   int
	}{"never": {never, 1}, "until it succeeds, as it has": {onFailure, 1}, "always": {func(*v1.Pod) {}, 2}} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(tc.change)
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: faults.Midway, Delay: 12 * time.Second, IgnoreCancel: true})
				n.SyncPod(giveUp(t, 10*time.Second), pod, nil)
				n.restart(recorded(dir))
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemoveContainer}, Delay: 5 * time.Second})
				time.AfterFunc(3*time.Second, func() { n.Observe(t.Context(), n.status()) })
				n.SyncPod(t.Context(), pod, nil)
				n.live(pod)
				n.wantStarts("app", tc.want)
			})
		})
	}
}

// C5: the last success counts, even if its record is lost and an earlier one
// is not.
func TestC5_SuccessCountsThoughAFailureIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure })
		n.settle(pod, time.Minute)
		n.exit("app", 1)
		n.settle(pod, time.Minute)
		n.exit("app", 0)
		n.settle(pod, time.Minute)
		must(t, n.Remove(n.current("app").ID.ID))
		n.live(pod)
		n.wantStates("app 0 exited", "b 0 running")
		if end := n.report.container("app").State.Terminated; end == nil || end.ExitCode != 0 {
			t.Errorf("the end of app is reported as %+v", end)
		}
	})
}

// C5: a container with the policy OnFailure and an unknown exit
// runs again, as does an init container.
func TestC5_UntilItSucceeds(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("init")), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure })
		n.sync(pod)
		must(t, n.Remove(n.current("init").ID.ID))
		n.sync(pod)
		n.wantStates("init 1 running")
		n.exit("init", 0)
		n.sync(pod)
		must(t, n.Remove(n.current("init").ID.ID))
		must(t, n.Remove(n.current("app").ID.ID))
		n.settle(pod, time.Minute)
		n.wantStates("app 1 running")
	})
}

// C5, I1: an init container of a pod that may not restart is to run once, too.
func TestC5_InitContainerStartedAndLost(t *testing.T) {
	for name, tc := range map[string]struct {
		exits bool
		phase v1.PodPhase
		apps  int
	}{"seen to succeed": {true, v1.PodRunning, 1}, "not seen to end": {false, v1.PodFailed, 0}} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(inits(ctr("init")), never)
				n.sync(pod)
				if tc.exits {
					n.exit("init", 0)
					n.Observe(t.Context(), n.status())
				}
				must(t, n.Remove(n.current("init").ID.ID))
				n.restart(recorded(dir))
				n.live(pod)
				n.wantStarts("init", 1)
				n.wantStarts("app", tc.apps)
				if phase := n.report.last().Phase; phase != tc.phase {
					t.Errorf("the pod is %s, want %s", phase, tc.phase)
				}
			})
		})
	}
}

// C11: an ephemeral container that is lost while it runs is reported as terminated.
func TestC11_LostEphemeralContainer(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(ephemeral("debug"))
		n.settle(pod, time.Minute)
		must(t, n.Remove(n.current("debug").ID.ID))
		n.settle(pod, time.Minute)
		n.wantStarts("debug", 1)
		n.wantLost("debug")
	})
}

// restartAllOn88 has all containers start over when the first of the pod exits with 88.
func restartAllOn88(p *v1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
	}}
}

// I1: init containers run again when all containers start over, even if a status from
// before their removal arrives late.
func TestI1_LateInspectionBringsNoResetContainerBack(t *testing.T) {
	for _, times := range []int{1, 2} {
		bubble(t, func(t *testing.T, n *node) {
			pod := testPod(inits(ctr("one", "true")), restartAllOn88)
			n.settle(pod, time.Minute)
			before := n.status()
			for range times {
				n.exit("app", 88)
				refused := n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "one"}, Err: errBroken})
				for refused.Hits() == 0 {
					n.SyncPod(t.Context(), pod, nil)
				}
				n.Observe(t.Context(), before)
				n.settle(pod, time.Minute)
			}
			n.wantStarts("one", 1+times)
			n.wantStarts("app", 1+times)
		})
	}
}

// A run-once container starts over with all others if one container requests it.
func TestRestartAllStartsRunOnceContainers(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")), never, restartAllOn88)
		n.settle(pod, time.Minute)
		n.exit("app", 88)
		n.settle(pod, time.Minute)
		n.wantStates("app 1 running", "b 1 running")
	})
}

// All containers start over in a new sandbox, because the pod has lost its sandbox. The runtime gets one stop for each
// container that runs.
func TestRestartAllInANewSandboxStopsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")), restartAllOn88)
		n.settle(pod, time.Minute)
		n.exit("app", 88)
		must(t, n.EditSandbox(n.Sandboxes()[0].GetId(), func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.settle(pod, time.Minute)
		n.wantStates("app 1 running", "b 1 running")
		if stops := n.Journal().Of(critest.StopContainer); len(stops) != 1 || stops[0].Container != "b" {
			t.Errorf("stops:\n%v\nwant one, of b", stops)
		}
	})
}

// A sidecar requests it: the pod continues, although its run-once containers have exited for that.
func TestRestartAllThatASidecarAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("init", "true"), sidecar("side")), containers(ctr("app")), never, func(p *v1.Pod) {
			p.Spec.InitContainers[1].RestartPolicyRules = []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
			}}
		})
		n.settle(pod, time.Minute)
		n.exit("side", 88)
		n.settle(pod, time.Minute)
		n.wantStates("app 1 running", "init 1 exited", "side 1 running")
		told := false
		for _, s := range n.report.all {
			if s.Phase == v1.PodFailed {
				t.Fatalf("it was reported as %+v", s)
			}
			for _, c := range s.Conditions {
				told = told || c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue
			}
		}
		if !told {
			t.Error("no report has the condition AllContainersRestarting")
		}
	})
}

// F14: an agent that starts while all containers of a pod restart, and none exists, knows from the
// reported status that the pod continues.
func TestF14_RestartAllOutlivesTheAgent(t *testing.T) {
	for name, looks := range map[string]int{"after the removal": 1, "after a look": 2} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(inits(ctr("init", "true"), sidecar("side")), containers(ctr("app")), never, func(p *v1.Pod) {
					p.Spec.InitContainers[1].RestartPolicyRules = []v1.ContainerRestartRule{{
						Action:    v1.ContainerRestartRuleActionRestartAllContainers,
						ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{88}},
					}}
				})
				n.settle(pod, time.Minute)
				n.exit("side", 88)
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errBroken})
				for range looks {
					_, _ = n.SyncPod(t.Context(), pod, nil)
				}
				pod.Status = n.report.last()
				n.restart(recorded(dir))
				n.settle(pod, time.Minute)
				n.wantStates("app 1 running", "init 1 exited", "side 1 running")
				for _, s := range n.report.all {
					if s.Phase == v1.PodFailed {
						t.Fatalf("it was reported as %+v", s)
					}
				}
				if last := n.report.last(); slices.ContainsFunc(last.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.AllContainersRestarting }) {
					t.Errorf("the last report is %+v, want none that it restarts", last)
				}
			})
		})
	}
}

// T2: a container that has just been started does not count as lost because the last inspection is older.
func TestT2_JustStartedIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer, Container: "b"}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(containers(ctr("app"), ctr("b")), never), nil)
		if s := n.report.container("app").State; s.Waiting == nil {
			t.Errorf("the state of app is %+v", s)
		}
	})
}

// A record is written before the node gets anything for the pod. It is written once more for each start of a container that is
// to run once, and for no other, and not at all while nothing happens.
func TestWritesOfRecords(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   int32
	}{"always": {func(*v1.Pod) {}, 3}, "never": {never, 5}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				w := &watchedRecords{}
				n.restart(watching(w, dir))
				pod := testPod(containers(ctr("app"), ctr("b")), tc.change)
				n.sync(pod)
				for range 3 {
					n.Observe(t.Context(), n.status())
					n.sync(pod)
				}
				if saves := w.saves.Load(); saves != tc.want {
					t.Errorf("saved %d times, want %d", saves, tc.want)
				}
			})
		})
	}
}

// A borrowed status is not modified when recorded details are added to it.
func TestUnknownStateIsCompletedInACopy(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(never), time.Minute)
		must(t, n.Restart(faults.Restart{Containers: faults.EffectUnknown}))
		must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 }))
		lent := n.status()
		if _, err := n.SyncPod(t.Context(), testPod(never), lent); err != nil {
			t.Fatal(err)
		}
		if c := lent.Latest("app"); c.State != runtime.ContainerUnknown || !c.StartedAt.IsZero() {
			t.Errorf("it became %+v, want %v without a start time", c, runtime.ContainerUnknown)
		}
	})
}
