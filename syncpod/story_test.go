package syncpod_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// The files in testdata are stories of one pod: each line of a block is a call of the Syncer or an event, and the answer is what the
// runtime was asked to change, the recorded events, and the status. Each block has its own node. (*tale).tell explains the lines.
// With -rewrite the answers are written again.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		blocks := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) (told string) {
			blocks++
			t.Run(fmt.Sprint(filepath.Base(path), blocks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTale(t)
					for line := range strings.Lines(d.Input) {
						told += strings.TrimSpace(line) + "\n" + s.tell(strings.Fields(line))
					}
				})
			})
			return told
		})
	})
}

// A tale is a pod, and the node that it runs on.
type tale struct {
	*testnode.Node
	syncer *syncpod.Syncer
	pod    *v1.Pod
	events []string
	status v1.PodStatus
}

func newTale(t *testing.T) *tale {
	s := &tale{Node: testnode.New(t, critest.Config{}), pod: testnode.Pod("api", "web", "u", testnode.Forever)}
	s.pod.Spec.Containers = nil
	var err error
	s.syncer, err = syncpod.New(syncpod.Config{
		Client: s.Client, RuntimeName: testnode.Name, Node: syncpod.Node{LogsRoot: "/var/log/pods"}, Parts: syncpod.Parts{Logs: noLogs{}},
		Events: syncpod.EventRecorderFunc(func(_ k8sruntime.Object, kind, reason, format string, args ...any) {
			s.events = append(s.events, fmt.Sprintf("  event %s %s: %s", kind, reason, fmt.Sprintf(format, args...)))
		}),
		Sink: syncpod.StatusSinkFunc(func(_ context.Context, _ *v1.Pod, status v1.PodStatus) error { s.status = status; return nil }),
	})
	s.Must(err)
	return s
}

// tell carries out one line.
//
//	init, sidecar, container NAME [SCRIPT]  adds a container to the pod
//	policy POLICY
//	sync                                    SyncPod
//	terminate, terminated                   SyncTerminatingPod, SyncTerminatedPod
//	exit CONTAINER CODE                     its process ends
//	fail METHOD                             the next call of the runtime fails
//	after DURATION
func (s *tale) tell(words []string) string {
	s.events = nil
	before := s.status
	var err error
	var next time.Time
	calls := s.Calls(func() {
		switch words[0] {
		case "init", "sidecar", "container":
			s.add(words[0], words[1], strings.Join(words[2:], " "))
		case "policy":
			s.pod.Spec.RestartPolicy = v1.RestartPolicy(words[1])
		case "sync":
			var result syncpod.Result
			result, err = s.syncer.SyncPod(s.Context(), s.pod, s.Status(s.pod.UID))
			next = result.NextTry
		case "terminate":
			err = s.syncer.SyncTerminatingPod(s.Context(), syncpod.Termination{Pod: s.pod, Status: s.Status(s.pod.UID)})
		case "terminated":
			err = s.syncer.SyncTerminatedPod(s.Context(), s.pod, s.Status(s.pod.UID))
		case "exit":
			code, _ := strconv.ParseInt(words[2], 10, 32)
			s.Exit(s.Status(s.pod.UID).Latest(words[1]).ID.ID, int32(code))
		case "fail":
			s.Fault(faults.Fault{Match: faults.Match{Method: critest.Method(words[1])}, Err: errBroken})
		case "after":
			d, problem := time.ParseDuration(words[1])
			s.Must(problem)
			time.Sleep(d)
		default:
			s.Fatalf("no line begins with %q", words[0])
		}
		synctest.Wait()
	})
	var told []string
	for _, call := range calls.Changes().Sequence() {
		told = append(told, "  "+call)
	}
	told = append(told, s.events...)
	if err != nil {
		told = append(told, "  error "+err.Error())
	}
	if after := statusText(s.status); after != statusText(before) {
		told = append(told, "  status "+after)
	}
	if !next.IsZero() {
		told = append(told, fmt.Sprintf("  again in %v", time.Until(next).Round(time.Second)))
	}
	if len(told) == 0 {
		return ""
	}
	return strings.Join(told, "\n") + "\n"
}

func (s *tale) add(kind, name, script string) {
	if script == "" {
		script = testnode.Forever
	}
	c := testnode.Pod("api", "web", "u", script).Spec.Containers[0]
	c.Name = name
	switch kind {
	case "sidecar":
		c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		fallthrough
	case "init":
		s.pod.Spec.InitContainers = append(s.pod.Spec.InitContainers, c)
	default:
		s.pod.Spec.Containers = append(s.pod.Spec.Containers, c)
	}
}

// statusText returns the phase, the conditions that are true, and the state of each container.
func statusText(status v1.PodStatus) string {
	text := string(status.Phase)
	for _, c := range status.Conditions {
		if c.Status == v1.ConditionTrue {
			text += " " + string(c.Type)
		}
	}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		state := "running"
		if w := c.State.Waiting; w != nil {
			state = "waiting " + w.Reason
		} else if end := c.State.Terminated; end != nil {
			state = fmt.Sprintf("terminated %s %d", end.Reason, end.ExitCode)
		}
		text += fmt.Sprintf("; %s %s", c.Name, state)
		if c.RestartCount > 0 {
			text += fmt.Sprintf(", restarts %d", c.RestartCount)
		}
	}
	return text
}

type noLogs struct{}

func (noLogs) MakeDirectory(string, string) error               { return nil }
func (noLogs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }
