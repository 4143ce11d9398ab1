package actions_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var rewrite = flag.Bool("rewrite", false, "write what was seen into the scenario files")

// The files in testdata are stories: prose, lines that begin with "> " and describe events, and below each the result. With
// -rewrite the results are written again. The words are the cases of (*story).happen and (*story).container.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			recorded := must.Get(os.ReadFile(file))(t)
			seen := must.Get(replay(string(recorded)))(t)
			if *rewrite {
				must.Do(t, os.WriteFile(file, []byte(seen), 0o644))
				return
			}
			if seen != string(recorded) {
				t.Errorf("%s records other results (go test ./actions -rewrite records these):\n%s", file, seen)
			}
		})
	}
}

// replay runs the events of a scenario file, and returns the text of the file with the current results.
func replay(recorded string) (string, error) {
	var b strings.Builder
	s := &story{}
	outcome := false
	lines := bufio.NewScanner(strings.NewReader(recorded))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		words, event := strings.CutPrefix(line, "> ")
		switch {
		case event:
			b.WriteString(line + "\n")
			seen, err := s.happen(append(strings.Fields(words), "", "", ""))
			if err != nil {
				return "", fmt.Errorf("line %d, %q: %w", n, line, err)
			}
			b.WriteString(seen)
			outcome = true
		case outcome && line != "": // an earlier result
		default:
			outcome = false
			b.WriteString(line + "\n")
		}
	}
	return b.String(), lines.Err()
}

// story is one pod on the model of a node.
type story struct{ *model }

func (s *story) happen(words []string) (seen string, err error) {
	if s.model == nil && words[0] != "pod" {
		return "", fmt.Errorf("the story has no pod yet")
	}
	switch words[0] {
	case "pod":
		return "", s.begin(slices.DeleteFunc(words[1:], func(word string) bool { return word == "" }))
	case "plan":
		return actions.Compute(s.input()).String(), nil
	case "carry-out":
		return "", s.carryOut(actions.Compute(s.input()))
	case "until-quiet":
		return s.untilNoOp()
	case "time-passes":
		s.pass()
	case "explain":
		return actions.Explain(s.input(), words[1]) + "\n", nil
	case "sandbox":
		return "", s.sandboxIs(words[1])
	case "reboot":
		s.stopAll()
	case "delete":
		s.pod.DeletionTimestamp = &metav1.Time{}
	case "restart-all":
		s.restartAll = true
	default:
		return "", s.container(words)
	}
	return "", nil
}

func (s *story) untilNoOp() (string, error) {
	var b strings.Builder
	rounds := 0
	_, err := s.run(20, func(p actions.Plan) {
		rounds++
		for _, line := range strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n") {
			fmt.Fprintf(&b, "%d: %s\n", rounds, line)
		}
	})
	return b.String(), err
}

// begin creates the pod: a restart policy, followed by its containers as kind:name[,property...].
func (s *story) begin(words []string) error {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "uid"}}
	s.model = newModel(pod)
	for _, word := range words {
		kind, rest, isContainer := strings.Cut(word, ":")
		switch {
		case word == "hostNetwork":
			pod.Spec.HostNetwork = true
		case !isContainer:
			pod.Spec.RestartPolicy = v1.RestartPolicy(word)
		default:
			c, err := specOf(rest)
			if err != nil {
				return err
			}
			if err := add(pod, kind, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func add(pod *v1.Pod, kind string, c v1.Container) error {
	switch kind {
	case "init":
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	case "sidecar":
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	case "container":
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	case "ephemeral":
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon(c),
		})
	default:
		return fmt.Errorf("no kind of container is called %q", kind)
	}
	return nil
}

// specOf parses a container from name[,property...].
func specOf(text string) (v1.Container, error) {
	properties := strings.Split(text, ",")
	c := v1.Container{Name: properties[0], Image: "img:v1"}
	for _, p := range properties[1:] {
		key, value, _ := strings.Cut(p, "=")
		switch key {
		case "startupProbe":
			c.StartupProbe = &v1.Probe{}
		case "livenessProbe":
			c.LivenessProbe = &v1.Probe{}
		case "policy":
			policy := v1.ContainerRestartPolicy(value)
			c.RestartPolicy = &policy
		case "restartOn", "restartAllOn":
			code, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return c, err
			}
			c.RestartPolicyRules = append(c.RestartPolicyRules, rule(key, int32(code)))
		case "cpu":
			c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(value)}
		case "cpuRestarts":
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
		default:
			return c, fmt.Errorf("no property of a container is called %q", key)
		}
	}
	return c, nil
}

func rule(key string, code int32) v1.ContainerRestartRule {
	action := v1.ContainerRestartRuleActionRestart
	if key == "restartAllOn" {
		action = v1.ContainerRestartRuleActionRestartAllContainers
	}
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
		Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{code},
	}}
}

func (s *story) sandboxIs(what string) error {
	if what == "doubled" {
		s.status.Sandboxes = append(s.status.Sandboxes, runtime.SandboxStatus{ID: s.id("s"), State: runtime.SandboxReady, Attempt: 9})
		return nil
	}
	latest := s.status.LatestSandbox()
	if latest == nil {
		return fmt.Errorf("there is no sandbox")
	}
	switch what {
	case "stops":
		latest.State = runtime.SandboxNotReady
	case "loses-its-address":
		latest.Network = &runtime.SandboxNetwork{}
	case "is-gone":
		s.status.Sandboxes = nil
	default:
		return fmt.Errorf("nothing that happens to a sandbox is called %q", what)
	}
	return nil
}

// container processes the event of one container: a word, its name, and more.
func (s *story) container(words []string) error {
	spec := s.spec(words[1])
	if spec == nil {
		return fmt.Errorf("the pod has no container %q", words[1])
	}
	if words[0] == "spec" {
		changed, err := specOf(words[1] + "," + words[2])
		spec.Resources = changed.Resources
		return err
	}
	if words[0] == "image" {
		spec.Image = words[2]
		return nil
	}
	if words[0] == "comes-alive-late" {
		first := slices.IndexFunc(s.status.Containers, func(c runtime.ContainerStatus) bool { return c.Name == spec.Name })
		s.status.Containers[first].State = runtime.ContainerRunning
		return nil
	}
	c := s.status.Latest(spec.Name)
	if c == nil {
		return fmt.Errorf("there is no instance of %q", spec.Name)
	}
	switch words[0] {
	case "exits":
		code, err := strconv.Atoi(words[2])
		c.State, c.ExitCode, c.Reason = runtime.ContainerExited, int32(code), strings.TrimSpace(strings.Join(words[3:], " "))
		return err
	case "is-only-created":
		c.State = runtime.ContainerCreated
	case "is-unknown":
		c.State = runtime.ContainerUnknown
	case "fails-liveness":
		s.probes[c.ID] = actions.ProbeResults{Liveness: actions.ProbeFailure, Startup: actions.ProbeSuccess}
	case "fails-startup":
		s.probes[c.ID] = actions.ProbeResults{Startup: actions.ProbeFailure}
	case "is-forgotten":
		s.status.Containers = slices.DeleteFunc(s.status.Containers, func(c runtime.ContainerStatus) bool { return c.Name == spec.Name })
	default:
		return fmt.Errorf("nothing that happens to a container is called %q", words[0])
	}
	return nil
}
