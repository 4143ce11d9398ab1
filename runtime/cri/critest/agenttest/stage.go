package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// stage runs one scenario.
type stage struct {
	cfg      Config
	ctx      context.Context
	rt       *critest.Runtime
	client   runtimeapi.RuntimeServiceClient // of the rig; its calls do not count as the agent's
	agent    Agent
	wanted   map[string]*v1.Pod // by name
	timers   []timer            // in order of their times
	injected []faults.Injected
	// kills are the kills in progress that began within a call.
	kills sync.WaitGroup

	mu     sync.Mutex // guards the fields below, and those of h that other goroutines write
	h      *history
	killIn int // the number of calls until the kill; 0 for no kill
	errs   []error
}

// timer is an action due at a time.
type timer struct {
	at time.Time
	do func()
}

// userAgent distinguishes the rig's calls from the agent's.
const userAgent = "referee"

func ofAgent(c critest.Call) bool { return !strings.HasPrefix(c.Caller, userAgent) }

// play runs a scenario. After all pods have their desired state, it continues to observe the agent for
// rest.
func play(ctx context.Context, cfg Config, sc Scenario, rest time.Duration) (_ *history, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "ref-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove(dir)) }()
	s := &stage{cfg: cfg, ctx: ctx, h: newHistory(sc, cfg), wanted: map[string]*v1.Pod{}}
	node := Node{Root: filepath.Join(dir, "r"), Logs: filepath.Join(dir, "l"), listen: new(listening), report: s.report}
	if err := errors.Join(os.Mkdir(node.Root, 0o755), os.Mkdir(node.Logs, 0o755)); err != nil {
		return nil, err
	}
	if s.rt, err = critest.New(runtimeOf(sc, node)); err != nil {
		return nil, err
	}
	node.runtime = s.rt
	defer func() { err = errors.Join(err, s.rt.Close()) }()
	conn, err := s.rt.Dial(grpc.WithUserAgent(userAgent))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	s.client = runtimeapi.NewRuntimeServiceClient(conn)
	if s.agent, err = cfg.Agent(node); err != nil {
		return nil, err
	}
	err = s.playAll(rest)
	return s.h, errors.Join(append(s.errs, err)...)
}

// remove removes a directory with the files that agents have left in it.
func remove(dir string) error {
	unmountBelow(dir)
	return os.RemoveAll(dir)
}

func runtimeOf(sc Scenario, node Node) critest.Config {
	cfg := critest.Config{Like: models[sc.Runtime], Dir: node.Root, LogsRoot: node.Logs}
	if cfg.Like == critest.CRIO {
		cfg.Name = "cri-o"
	}
	for _, image := range presentImages() {
		cfg.Images = append(cfg.Images, critest.Image{Name: image})
	}
	return cfg
}

// playAll runs the scenario from the agent's start to its end.
func (s *stage) playAll(rest time.Duration) (err error) {
	if err := s.makeOthers(); err != nil {
		return err
	}
	defer s.rt.OnCall(s.heard)()
	if err := s.calm(); err != nil {
		return err
	}
	s.h.begin = time.Now()
	if err := s.setPods(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.stopAgent(Step{}))
		s.h.calls, s.h.processes = callsIn(s.rt.Journal()), s.rt.Processes()
	}()
	if err := s.startAgent(Step{}); err != nil {
		return err
	}
	for _, step := range s.h.scenario.Steps {
		if err := s.pass(seconds(step.After)); err != nil {
			return err
		}
		if err := deeds[step.Do].do(s, step); err != nil {
			return fmt.Errorf("%s: %w", step.Do, err)
		}
	}
	return s.settle(rest)
}

// aftermath is how long faults may still affect the last action.
const aftermath = 6 * time.Second

// settle waits, without further actions, until all pods have their desired state.
func (s *stage) settle(rest time.Duration) error {
	if err := s.pass(aftermath); err != nil {
		return err
	}
	s.disarm()
	for len(s.timers) > 0 {
		if err := s.pass(time.Until(s.timers[0].at)); err != nil {
			return err
		}
	}
	if err := s.calm(); err != nil {
		return err
	}
	for _, r := range s.h.restarts {
		if err := s.pass(time.Until(r.to)); err != nil {
			return err
		}
	}
	s.say("", "peace")
	if err := s.startAgent(Step{}); err != nil {
		return err
	}
	s.h.peace = time.Now()
	for {
		if err := s.takeStock(); err != nil {
			return err
		}
		if len(s.h.missing()) == 0 || time.Since(s.h.peace) > s.cfg.Patience {
			break
		}
		if err := s.pass(time.Second); err != nil {
			return err
		}
	}
	s.h.settled = time.Now()
	err := s.pass(rest)
	s.h.end = time.Now()
	return err
}

// calm ends all faults.
func (s *stage) calm() error {
	for _, i := range s.injected {
		i.Remove()
	}
	s.injected = nil
	for n := range s.h.chaos {
		if s.h.chaos[n].to.IsZero() {
			s.h.chaos[n].to = time.Now()
		}
	}
	return s.rt.SetRandom(faults.Random{Seed: s.h.scenario.Seed, Latency: latency})
}

// pass waits, and runs the actions that become due.
func (s *stage) pass(d time.Duration) error {
	until := time.Now().Add(d)
	for len(s.timers) > 0 && !s.timers[0].at.After(until) {
		next := s.timers[0]
		s.timers = s.timers[1:]
		if err := s.sleep(time.Until(next.at)); err != nil {
			return err
		}
		next.do()
	}
	return s.sleep(time.Until(until))
}

func (s *stage) sleep(d time.Duration) error {
	if d <= 0 {
		return s.ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *stage) later(d time.Duration, do func()) {
	s.timers = append(s.timers, timer{time.Now().Add(d), do})
	slices.SortStableFunc(s.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// setPods calls SetPods of the agent with copies of the desired pods, sorted by name.
func (s *stage) setPods() error {
	var pods []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(s.wanted)) {
		pods = append(pods, s.wanted[name].DeepCopy())
	}
	return s.agent.SetPods(pods)
}

func (s *stage) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h.alive()
}

// endLife ends the current agent's life in the history. It reports whether there was one.
func (s *stage) endLife() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := s.h.alive()
	if alive {
		s.h.lives[len(s.h.lives)-1].to = time.Now()
	}
	return alive
}

// note records an error of a goroutine that no other goroutine waits for.
func (s *stage) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

// others is the UID of the pod that does not belong to the agent.
const others types.UID = "of-others"

// makeOthers creates a pod with another owner in the runtime, without any agent's
// label.
func (s *stage) makeOthers() error {
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "others", Name: "others", Uid: string(others)},
		Labels:   map[string]string{"example.com/made-by": "somebody else"},
	}
	made, err := s.client.RunPodSandbox(s.ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return err
	}
	created, err := s.client.CreateContainer(s.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: made.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "theirs"}, Labels: sandbox.Labels,
			Image: &runtimeapi.ImageSpec{Image: presentImages()[0]}, Command: []string{"sh", "-c", polite},
		},
	})
	if err != nil {
		return err
	}
	_, err = s.client.StartContainer(s.ctx, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()})
	return err
}

// takeStock lists the objects that the runtime has.
func (s *stage) takeStock() error {
	sandboxes, err := s.client.ListPodSandbox(s.ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	list, err := s.client.ListContainers(s.ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	s.h.sandboxes, s.h.containers = sandboxes.Items, list.Containers
	slices.SortFunc(s.h.containers, func(a, b *runtimeapi.Container) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	s.h.processes = s.rt.Processes()
	return nil
}
