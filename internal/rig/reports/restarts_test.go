//go:build linux

package reports

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
)

// While a pod terminates, no liveness or startup probe of a sidecar runs.
func TestProbesOfSidecarsEndWithThePod(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {terminationGracePeriodSeconds: 120, initContainers: [{name: side, restartPolicy: Always, command: [sh, -c, "touch /live; trap 'exit 0' TERM; sleep infinity & wait"],
  livenessProbe: {exec: {command: [test, -e, /live]}, initialDelaySeconds: 2, periodSeconds: 1, failureThreshold: 1}}],
 containers: [{name: app, command: [sh, -c, "trap 'sleep 60; exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(time.Minute)
		n.delete(pod, 120)
		time.Sleep(time.Second)
		exec(n, "side", "rm", "/live")
		time.Sleep(3 * time.Minute)
		n.want(len(n.runs("side")), 1, "runs of the sidecar")
		n.want(n.runs("side")[0].Ended.Before(n.runs("app")[0].Ended), false, "the sidecar ends after the app")
	})
}

// A pod that is removed while no agent runs leaves nothing on the disk, in whatever state its containers are.
func TestPodRemovedWhileNoAgentRuns(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"f": "x"})
		pod := n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}, {name: m, emptyDir: {medium: Memory}}, {name: s, secret: {secretName: c}}, {name: e, emptyDir: {}}], containers: [{name: app, command: [server],
  volumeMounts: [{name: v, mountPath: /v}, {name: m, mountPath: /m}, {name: s, mountPath: /s, subPath: f}, {name: e, mountPath: /e, subPath: d}]}]}}`)
		time.Sleep(time.Minute)
		n.Kill()
		n.pods.Delete(pod.UID)
		if err := n.Remove(n.runs("app")[0].SandboxID); err != nil {
			n.Fatal(err)
		}
		time.Sleep(time.Hour)
		n.start()
		time.Sleep(10 * time.Minute)
		left, _ := filepath.Glob(filepath.Join(n.Root, "pods", "*"))
		n.want(left, "[]", "directories of pods")
		records, _ := filepath.Glob(filepath.Join(n.Root, "*", "a*"))
		n.want(records, "[]", "records of the pod")
	})
}

// One directory of a gone pod that is busy does not keep those of others from being removed, nor pods from starting and ending.
func TestBusyDirectoryOfAGonePod(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"f": "x"})
		for _, name := range []string{"busy", "plain", "pinned"} {
			n.apply(`{metadata: {name: ` + name + `}, spec: {volumes: [{name: v, configMap: {name: c}}], containers: [{name: ` + name + `, command: [server], volumeMounts: [{name: v, mountPath: /f, subPath: f}]}]}}`)
		}
		time.Sleep(time.Minute)
		n.Kill()
		busy := filepath.Join(n.Root, "pods", "busy", "volumes", "example.com~driver", "v")
		pinned := filepath.Join(n.Root, "pods", "pinned", "volume-subpaths", "v", "pinned", "1")
		for _, dir := range []string{busy, pinned} {
			if err := os.MkdirAll(dir, 0o750); err != nil {
				n.Fatal(err)
			}
		}
		if err := syscall.Mount("tmpfs", busy, "tmpfs", 0, ""); err != nil {
			n.Skip(err)
		}
		if err := os.WriteFile(filepath.Join(busy, "data"), []byte("x"), 0o600); err != nil {
			n.Fatal(err)
		}
		for _, name := range []string{"busy", "plain", "pinned"} {
			n.pods.Delete(types.UID(name))
		}
		n.start()
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "trap 'exit 0' TERM; sleep infinity & wait"]}]}}`)
		time.Sleep(5 * time.Minute)
		left, _ := filepath.Glob(filepath.Join(n.Root, "pods", "*"))
		n.want(len(left), 2, "directories: "+strings.Join(left, " "))
		if _, err := os.Stat(filepath.Join(busy, "data")); err != nil {
			n.Error(err)
		}
		n.delete(pod, 30)
		time.Sleep(5 * time.Second)
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
	})
}

// A pod that has ended gives up the space of its emptyDir while its object stays.
func TestEndedPodGivesUpItsSpace(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, volumes: [{name: e, emptyDir: {}}], containers: [{name: app, command: [sh, -c, "echo data > /e/file; sleep 5; exit 1"], volumeMounts: [{name: e, mountPath: /e}]}]}}`)
		time.Sleep(time.Second)
		file := filepath.Join(n.Root, "pods", "a", "volumes", "kubernetes.io~empty-dir", "e", "file")
		if _, err := os.Stat(file); err != nil {
			n.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			n.Errorf("the file of an ended pod: %v", err)
		}
		n.want(n.ended("a", "app").ExitCode, 1, "exit code")
	})
}

// A machine that loses power: volumes in memory are empty, containers are gone, counts and files are as before.
func TestMachineLosesPower(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"f": "x"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}, {name: s, secret: {secretName: c}}], initContainers: [{name: init, command: ["true"]}], containers: [{name: app, command: [sh, -c, "cat /v/f /s/f > /dev/termination-log; sleep 600; exit 1"],
  volumeMounts: [{name: v, mountPath: /v}, {name: s, mountPath: /s}]}]}}`)
		time.Sleep(15 * time.Minute)
		before := n.of("a", "app").RestartCount
		n.Kill()
		unmount(n.T, n.Root)
		if err := os.RemoveAll(filepath.Join(n.Root, "pods", "a", "volumes", "kubernetes.io~configmap")); err != nil {
			n.Fatal(err)
		}
		if err := n.Restart(faults.Restart{Down: time.Minute, Disconnect: true, Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		n.start()
		time.Sleep(5 * time.Minute)
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
		n.want(n.of("a", "app").RestartCount, before+1, "restart count")
		n.want(len(n.runs("init")), 2, "runs of the init container")
		time.Sleep(15 * time.Minute)
		n.want(n.last("a", "app").Message, "xx", "files")
	})
}

// A container whose volume an administrator has deleted on the node gets it back when it restarts.
func TestVolumeIsDeletedOnTheNode(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"f": "x"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}], containers: [{name: app, command: [sh, -c, "cat /v/f > /dev/termination-log; sleep 100; exit 1"], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		if err := os.RemoveAll(filepath.Join(n.Root, "pods", "a", "volumes")); err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		n.want(n.of("a", "app").State.Running != nil, true, "it runs")
		n.want(n.last("a", "app").Message, "x", "file")
	})
}

// A ConfigMap that changes while its source is unavailable reaches the volume, and the variables of the next instance.
func TestConfigMapChangesWhileUnavailable(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.objects.set("c", map[string]string{"f": "old"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}], containers: [{name: app, env: [{name: F, valueFrom: {configMapKeyRef: {name: c, key: f}}}],
  command: [sh, -c, "echo $F > /dev/termination-log; sleep 1000; exit 1"], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		time.Sleep(time.Minute)
		n.objects.mu.Lock()
		n.objects.down = errDown
		n.objects.mu.Unlock()
		time.Sleep(5 * time.Minute)
		n.objects.set("c", map[string]string{"f": "new"})
		time.Sleep(5 * time.Minute)
		text, code := exec(n, "app", "cat", "/v/f")
		n.want(text, "old", "file while the source is unavailable")
		n.want(code, 0, "exit code")
		n.objects.mu.Lock()
		n.objects.down = nil
		n.objects.mu.Unlock()
		time.Sleep(2 * time.Minute)
		text, _ = exec(n, "app", "cat", "/v/f")
		n.want(text, "new", "file")
		time.Sleep(40 * time.Minute)
		n.want(n.last("a", "app").Message, "new\n", "variable of the next instance")
	})
}

// A sandbox that seems to be made in the future causes no restarts.
func TestSandboxFromTheFuture(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 300; exit 1"]}]}}`)
		time.Sleep(time.Minute)
		n.StepClock(-48 * time.Hour)
		time.Sleep(time.Minute)
		n.restart(time.Minute)
		time.Sleep(20 * time.Minute)
		n.want(len(n.Journal().Of(critest.RunPodSandbox)), 1, "sandboxes")
		n.want(n.of("a", "app").State.Running != nil, true, "it runs")
		n.want(len(n.runs("app")), n.of("a", "app").RestartCount+1, "restarts are counted")
	})
}

// An init container that was created before the machine rebooted, with a clock that has jumped since, keeps nothing from starting.
func TestInitContainerCreatedBeforeAReboot(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": 40 * time.Second, "back": -40 * time.Second, "not": 0} {
		t.Run(name, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				hung := new(faults.Gate)
				injected, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StartContainer, Container: "init"}, Hang: hung})
				if err != nil {
					n.Fatal(err)
				}
				n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: init, command: [sleep, "5"]}], containers: [{name: app, command: [server]}]}}`)
				time.Sleep(10 * time.Second)
				n.Kill()
				injected.Remove()
				if err := n.Restart(faults.Restart{Down: 10 * time.Second, Disconnect: true, Sandboxes: faults.EffectStopped}); err != nil {
					n.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				n.StepClock(step)
				n.start()
				time.Sleep(5 * time.Minute)
				n.want(n.status("a").Phase, v1.PodRunning, "phase")
				n.want(len(n.runs("init")), 1, "runs of the init container")
			})
		})
	}
}

// A pod with the policy Always ends for good when its deadline has passed.
func TestDeadlineOfAPodThatAlwaysRestarts(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {activeDeadlineSeconds: 100, containers: [{name: app, command: [sleep, "30"]}]}}`)
		time.Sleep(10 * time.Minute)
		n.restart(time.Minute)
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").Phase, v1.PodFailed, "phase")
		n.want(n.status("a").Reason, "DeadlineExceeded", "reason")
		for _, p := range n.runs("app") {
			n.want(p.Started.Sub(n.status("a").StartTime.Time) < 100*time.Second, true, "started before the deadline")
		}
		n.want(len(n.agent.Pods()), 1, "pods")
	})
}

// Sources that hang delay a restart by the wait for the volumes and by the one for the variables, once each, and neither the
// updates of running containers nor the other kinds of objects add to that.
func TestR1_SourcesThatHangDelayARestartOnce(t *testing.T) {
	var hang atomic.Bool
	change := func(c *agent.Config) {
		o := &c.Sync.Objects.Sources
		maps, secrets := o.ConfigMaps, o.Secrets
		o.ConfigMaps = env.ConfigMapsFunc(func(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
			if hang.Load() {
				<-ctx.Done()
			}
			return maps.ConfigMap(ctx, namespace, name)
		})
		o.Secrets = env.SecretsFunc(func(ctx context.Context, namespace, name string) (*v1.Secret, error) {
			if hang.Load() {
				<-ctx.Done()
			}
			return secrets.Secret(ctx, namespace, name)
		})
	}
	on(t, critest.Config{}, change, func(n *node) {
		n.objects.set("c", map[string]string{"k": "x"})
		n.apply(`{metadata: {name: a}, spec: {volumes: [{name: v, configMap: {name: c}}, {name: w, secret: {secretName: c}}], containers: [
 {name: files, command: [sh, -c, "sleep 60; exit 1"], volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w}]},
 {name: variables, command: [sh, -c, "sleep 65; exit 1"], envFrom: [{configMapRef: {name: c}}, {secretRef: {name: c}}]},
 {name: neither, command: [sh, -c, "sleep 75; exit 1"]}]}}`)
		time.Sleep(30 * time.Second)
		n.objects.mu.Lock()
		n.objects.down = errors.New("connection refused")
		n.objects.mu.Unlock()
		hang.Store(true)
		time.Sleep(70 * time.Second)
		for _, c := range []string{"files", "variables", "neither"} {
			runs := n.runs(c)
			if len(runs) < 2 {
				n.Errorf("%s ran %d times", c, len(runs))
			} else if late := runs[1].Started.Sub(runs[0].Ended); late > 5*time.Second {
				n.Errorf("%s restarted after %v", c, late)
			}
		}
	})
}

// reboot kills the agent and stops all that runs, and starts both again.
func reboot(n *node) {
	n.Helper()
	n.Kill()
	if err := n.Restart(faults.Restart{Down: 20 * time.Second, Disconnect: true, Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}); err != nil {
		n.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	n.start()
}

// After each reboot all init containers run again, in their order and before the others, also if it interrupted them, or if the agent
// is killed while they run again.
func TestInitContainersOverReboots(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: i1, command: [sleep, "20"]}, {name: i2, command: [sleep, "20"]}, {name: side, restartPolicy: Always, command: [server]}, {name: i3, command: [sleep, "5"]}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(30 * time.Second) // i2 runs
		reboot(n)
		time.Sleep(5 * time.Minute)
		reboot(n)
		time.Sleep(10 * time.Second) // i1 runs
		n.restart(time.Second)
		time.Sleep(5 * time.Minute)
		for c, runs := range map[string]int{"i1": 3, "i2": 3, "side": 2, "i3": 2, "app": 2} {
			n.want(len(n.runs(c)), runs, "runs of "+c)
		}
		for i, app := range n.runs("app") {
			n.want(app.Started.Before(n.runs("i3")[i].Ended), false, "the app starts after the last init container")
		}
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}

// A log file, or the whole directory of logs, that an administrator deletes comes back, and keeps no container from restarting.
func TestLogIsDeletedOnTheNode(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo line $i; sleep 20; done; exit 1"]}]}}`)
		time.Sleep(time.Minute)
		logs, _ := filepath.Glob(filepath.Join(n.Logs, "*", "app", "0.log"))
		n.want(len(logs), 1, "logs")
		if err := os.Remove(logs[0]); err != nil {
			n.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		n.want(logSize(n, "app") > 0, true, "there are new lines")
		if err := os.RemoveAll(filepath.Dir(filepath.Dir(logs[0]))); err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		n.want(n.of("a", "app").RestartCount >= 1, true, "it restarts")
		n.want(logSize(n, "app") > 0, true, "the next instance has a log")
	})
}
