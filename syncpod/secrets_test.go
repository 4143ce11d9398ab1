package syncpod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
)

// repeating is a connection to a runtime that repeats the command of a container in the errors of a method, and in the
// message of each exited container.
type repeating struct {
	grpc.ClientConnInterface
	method string
	mu     *sync.Mutex
	last   *string
}

func (r repeating) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	r.mu.Lock()
	if create, ok := args.(*runtimeapi.CreateContainerRequest); ok {
		*r.last = fmt.Sprintf("exec: %q: stat %s: no such file", create.GetConfig().GetCommand(), create.GetConfig().GetCommand()[0])
	}
	text := *r.last
	r.mu.Unlock()
	if strings.HasSuffix(method, "/"+r.method) {
		return status.Error(codes.Unknown, text)
	}
	err := r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if s, ok := reply.(*runtimeapi.ContainerStatusResponse); ok && s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
		s.Status.Message = text
	}
	return err
}

// startErrors records the errors of starts.
type startErrors struct {
	syncpod.NopObserver
	all []string
}

func (s *startErrors) ContainerStarted(_ *v1.Pod, _ actions.ContainerRef, _ time.Duration, err error) {
	if err != nil {
		s.all = append(s.all, fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)))
	}
}

// withSecret is a pod whose command has the value of a Secret, from a variable or from all keys of the Secret.
func withSecret(all bool) *v1.Pod {
	return testPod(func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.Command = []string{"/bin/app-$(password)"}
		name := v1.LocalObjectReference{Name: "s"}
		if all {
			c.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: name}}}
		} else {
			c.Env = []v1.EnvVar{{Name: "password", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: name, Key: "password"}}}}
		}
	})
}

// What a runtime says of a container repeats its command, which may have values of Secrets. They are in no error, event,
// status, log line, explanation or observation.
func TestSecretsInTextsOfTheRuntime(t *testing.T) {
	for name, secret := range map[string]string{"short": "hunter2", "escaped": "hunter2\n\"\x1b", "long": strings.Repeat("hunter2-", 4<<10)} {
		for _, method := range []string{"CreateContainer", "StartContainer", "UpdateContainerResources", "exited"} {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %v", name, method, all), func(t *testing.T) {
					bubble(t, func(t *testing.T, n *node) {
						var log strings.Builder
						observer := &startErrors{}
						n.restart(func(c *syncpod.Config) {
							n.Client = cri.NewClient(repeating{n.conn, method, &sync.Mutex{}, new(string)})
							c.Client, c.Parts.Statuses = n.Client, n.Reader()
							c.Objects.Sources = env.Sources{Secrets: oneSecret(secret)}
							c.Log = funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{Verbosity: 9})
							c.Observer = observer
						})
						pod := withSecret(all)
						var errs []error
						for range 3 {
							_, err := n.SyncPod(t.Context(), pod, nil)
							errs = append(errs, err)
							if method == "exited" && n.current("app") != nil && n.current("app").State == runtime.ContainerRunning {
								n.exit("app", 1)
							}
							time.Sleep(15 * time.Minute)
						}
						sent, _ := json.Marshal(n.report.all)
						where := map[string]string{
							"errors": fmt.Sprint(errs), "events": strings.Join(n.events.all, "\n"), "statuses": string(sent), "log": log.String(),
							"explanation": n.Explain(pod.UID), "observations": strings.Join(observer.all, "\n"),
						}
						redacted := ""
						for place, text := range where {
							if strings.Contains(text, "hunter2") || strings.Contains(text, "nter2-") {
								t.Errorf("%s: %.300s", place, text)
							}
							if strings.Contains(text, foreign.Redacted) {
								redacted += place + " "
							}
						}
						if method != "UpdateContainerResources" && (redacted == "" || !strings.Contains(where["statuses"], "no such file")) {
							t.Errorf("nothing was redacted in %v", where)
						}
					})
				})
			}
		}
	}
}

// talkative sandboxes repeat the command of a container in their errors.
type talkative struct {
	syncpod.Sandboxes
	fails *bool
}

var errTalkative = errors.New("clean up: stop sandbox s: runc: /bin/app-hunter2 does not end")

func (s talkative) Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (run.Created, error) {
	if *s.fails {
		return run.Created{}, errTalkative
	}
	return s.Sandboxes.Create(ctx, config, handler)
}
func (s talkative) Unresolved(types.UID) bool                        { return *s.fails }
func (s talkative) Resolve(context.Context, types.UID, string) error { return errTalkative }

// Removals of sandboxes that appeared late reveal no value of their containers.
func TestSecretsInErrorsOfSandboxes(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		fails := false
		n.restart(func(c *syncpod.Config) {
			c.Objects.Sources = env.Sources{Secrets: oneSecret("hunter2")}
			runner, err := run.New(run.Config{Runtime: n.Client})
			must(t, err)
			c.Parts.Sandboxes = talkative{runner, &fails}
		})
		pod := withSecret(false)
		n.sync(pod)
		fails = true
		_, unseen := n.SyncPod(t.Context(), pod, n.status())
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		time.Sleep(time.Minute)
		_, failed := n.SyncPod(t.Context(), pod, nil)
		for _, err := range []error{unseen, failed} {
			if text := fmt.Sprintf("%v %+v %v", err, errors.Unwrap(err), n.events.all); strings.Contains(text, "hunter2") || !strings.Contains(fmt.Sprint(err), foreign.Redacted) {
				t.Errorf("%s, want the value replaced", text)
			}
		}
	})
}

// The next agent does not know the values with which an earlier one created a container.
func TestTextOfAnEarlierAgentIsWithheld(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		last := new(string)
		client := func(c *syncpod.Config) {
			n.Client = cri.NewClient(repeating{n.conn, "exited", &sync.Mutex{}, last})
			c.Client, c.Parts.Statuses = n.Client, n.Reader()
			c.Objects.Sources = env.Sources{Secrets: oneSecret("hunter2")}
		}
		n.restart(client)
		pod := withSecret(false)
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.sync(pod)
		n.exit("app", 1)
		n.restart(client)
		n.sync(pod)
		if m := n.report.container("app").State.Terminated; m == nil || m.Message != foreign.Withheld {
			t.Errorf("%+v, want the message withheld", m)
		}
	})
}

// The next agent does not know the values in what a runtime says when it does not stop the containers of an earlier one. Of a pod
// without a spec it does not know whether there are any.
func TestTextOfAStopByTheNextAgentIsWithheld(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		last := new(string)
		client := func(fails string) func(*syncpod.Config) {
			return func(c *syncpod.Config) {
				n.Client = cri.NewClient(repeating{n.conn, fails, &sync.Mutex{}, last})
				c.Client, c.Parts.Statuses = n.Client, n.Reader()
				c.Objects.Sources = env.Sources{Secrets: oneSecret("hunter2")}
			}
		}
		n.restart(client(""))
		pod := withSecret(false)
		n.sync(pod)
		if !strings.Contains(*last, "hunter2") {
			t.Fatalf("the command is %s", *last)
		}
		n.restart(client("StopContainer"))
		for name, stop := range map[string]func(context.Context) error{
			"with a spec": func(ctx context.Context) error { return n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}) },
			"without a spec": func(ctx context.Context) error {
				return n.SyncTerminatingRuntimePod(ctx, syncpod.RuntimePod{UID: podUID})
			},
		} {
			err := stop(t.Context())
			if text := fmt.Sprintf("%v %+v %#v %v", err, err, errors.Unwrap(err), n.events.all); strings.Contains(text, "hunter2") || !strings.Contains(text, foreign.Withheld) {
				t.Errorf("%s: %s, want the text withheld", name, text)
			}
		}
		if events := strings.Join(n.events.all, "\n"); !strings.Contains(events, foreign.Withheld) {
			t.Errorf("events %s, want one without the text", events)
		}
	})
}
