package agenttest

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// deed carries out a step.
type deed struct {
	// pod: the step must name a pod.
	pod bool
	do  func(*stage, Step) error
}

var deeds = map[string]deed{
	"add":             {true, (*stage).add},
	"remove":          {true, (*stage).remove},
	"edit":            {true, (*stage).edit},
	"start-agent":     {false, (*stage).startAgent},
	"stop-agent":      {false, (*stage).stopAgent},
	"kill-agent":      {false, (*stage).killAgent},
	"kill-agent-at":   {false, (*stage).killAgentAt},
	"restart-runtime": {false, (*stage).restartRuntime},
	"fail":            {false, func(s *stage, step Step) error { return s.inject(step, faults.Fault{Err: refusal}) }},
	"lose-answer": {false, func(s *stage, step Step) error {
		return s.inject(step, faults.Fault{When: faults.After, Err: silence})
	}},
	"late": {false, func(s *stage, step Step) error {
		return s.inject(step, faults.Fault{When: faults.Midway, Delay: seconds(step.For), IgnoreCancel: true})
	}},
	"exit":          {true, (*stage).exit},
	"lose-sandbox":  {true, (*stage).loseSandbox},
	"drop-events":   {false, func(s *stage, step Step) error { return s.injectEvent(step, faults.Drop) }},
	"double-events": {false, func(s *stage, step Step) error { return s.injectEvent(step, faults.Duplicate) }},
	"late-events":   {false, func(s *stage, step Step) error { return s.injectEvent(step, faults.Delay) }},
	"break-events":  {false, (*stage).breakEvents},
	"hang-exec":     {false, (*stage).hangExec},
	"chaos":         {false, (*stage).chaos},
	"calm":          {false, func(s *stage, _ Step) error { s.say("", "the runtime works"); return s.calm() }},
	"watch":         {false, (*stage).watch},
}

var (
	refusal = status.Error(codes.Unknown, "referee: refused")
	silence = status.Error(codes.DeadlineExceeded, "referee: the answer is lost")
)

// effects are the possible effects of a runtime restart on sandboxes and containers.
var effects = map[string][2]faults.RestartEffect{
	"":                   {faults.EffectNone, faults.EffectNone},
	"stopped":            {faults.EffectStopped, faults.EffectStopped},
	"containers-stopped": {faults.EffectNone, faults.EffectStopped},
	"containers-removed": {faults.EffectNone, faults.EffectRemoved},
	"removed":            {faults.EffectRemoved, faults.EffectRemoved},
	"unknown":            {faults.EffectNone, faults.EffectUnknown},
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func uidOf(pod string) types.UID { return newPod(pod, 1).UID }

func (s *stage) add(step Step) error {
	if s.wanted[step.Pod] != nil {
		return nil
	}
	p := newPod(step.Pod, 1)
	s.wanted[step.Pod] = p
	s.say(p.UID, "the pod is wanted")
	s.life(p.UID).want(time.Now(), p)
	return s.setPods()
}

func (s *stage) remove(step Step) error {
	p := s.wanted[step.Pod]
	if p == nil {
		return nil
	}
	delete(s.wanted, step.Pod)
	s.say(p.UID, "the pod is not wanted any more, its grace period is %d s", *p.Spec.TerminationGracePeriodSeconds)
	s.life(p.UID).drop(time.Now())
	return s.setPods()
}

func (s *stage) edit(step Step) error {
	if s.wanted[step.Pod] == nil {
		return nil
	}
	l := s.life(uidOf(step.Pod))
	p := newPod(step.Pod, 1+len(l.versions)%versions)
	s.wanted[step.Pod] = p
	s.say(p.UID, "the image of %s is to be %s", p.Spec.Containers[0].Name, p.Spec.Containers[0].Image)
	l.versions = append(l.versions, version{time.Now(), p})
	return s.setPods()
}

func (s *stage) startAgent(Step) error {
	s.kills.Wait()
	if s.alive() {
		return nil
	}
	s.say("", "the agent starts")
	s.mu.Lock()
	s.h.lives = append(s.h.lives, span{from: time.Now()})
	s.mu.Unlock()
	err := s.agent.Start()
	if err != nil {
		s.endLife()
	}
	return err
}

func (s *stage) stopAgent(Step) error {
	if !s.alive() {
		return nil
	}
	s.disarm()
	s.say("", "the agent must end")
	err := s.agent.Stop()
	s.endLife()
	return err
}

func (s *stage) killAgent(Step) error {
	s.disarm()
	if !s.endLife() {
		return nil
	}
	s.say("", "the agent is killed")
	return s.agent.Kill()
}

// killAgentAt kills the agent during one of its calls.
func (s *stage) killAgentAt(step Step) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killIn = max(step.N, 1)
	return nil
}

// disarm cancels killAgentAt.
func (s *stage) disarm() {
	s.mu.Lock()
	s.killIn = 0
	s.mu.Unlock()
	s.kills.Wait()
}

// heard is called after each call's effect, and before its response.
func (s *stage) heard(_ int, c critest.Call) {
	if !ofAgent(c) || !s.isLast(c) {
		return
	}
	defer s.kills.Done()
	s.say("", "the agent is killed before it has the answer to %s", c.Subject())
	s.note(s.agent.Kill())
}

// isLast reports whether the agent must be killed at this call. If so, the agent's life ends, and the
// caller must call Done on kills.
func (s *stage) isLast(c critest.Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killIn == 0 {
		return false
	}
	s.killIn--
	if s.killIn > 0 || !s.h.alive() {
		return false
	}
	s.h.unanswered[c.N] = true
	s.h.lives[len(s.h.lives)-1].to = time.Now()
	s.kills.Add(1)
	return true
}

func (s *stage) restartRuntime(step Step) error {
	effect := effects[step.Effect]
	s.say("", "the runtime is away for %v, effect %q", seconds(step.For), step.Effect)
	now := time.Now()
	s.h.restarts = append(s.h.restarts, runtimeRestart{span{now, now.Add(seconds(step.For))}, step.Effect})
	return s.rt.Restart(faults.Restart{Down: seconds(step.For), Disconnect: step.Disconnect, Sandboxes: effect[0], Containers: effect[1]})
}

// inject injects a fault into the agent's next calls.
func (s *stage) inject(step Step, f faults.Fault) error {
	f.Match = faults.Match{Method: step.Method, If: ofAgent}
	if step.Pod != "" {
		f.Match.PodUID = string(uidOf(step.Pod))
	}
	f.Times = step.N
	s.say(types.UID(f.Match.PodUID), "%s: the next %d of %s", step.Do, max(step.N, 1), step.Method)
	i, err := s.rt.Inject(f)
	if err == nil {
		s.injected = append(s.injected, i)
	}
	return err
}

func (s *stage) injectEvent(step Step, action faults.Action) error {
	f := faults.Event{Action: action, Times: step.N}
	if action == faults.Delay {
		f.Delay = seconds(step.For)
	}
	s.say("", "%s: the next %d", step.Do, max(step.N, 1))
	i, err := s.rt.InjectEvent(f)
	if err == nil {
		s.injected = append(s.injected, i)
	}
	return err
}

func (s *stage) breakEvents(Step) error {
	s.say("", "the streams of events break")
	s.rt.DisconnectEvents(nil)
	return nil
}

func (s *stage) hangExec(step Step) error {
	s.say("", "commands in containers hang for %v", seconds(step.For))
	gate := new(faults.Gate)
	i, err := s.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.ExecSync}, Times: faults.Always, Hang: gate})
	if err != nil {
		return err
	}
	s.h.execHung = append(s.h.execHung, span{time.Now(), time.Now().Add(seconds(step.For))})
	s.later(seconds(step.For), func() { gate.Open(); i.Remove() })
	return nil
}

// running returns the newest running process of a pod's container, or of any of its containers for "".
func (s *stage) running(pod, container string) *critest.Process {
	all := s.rt.Processes()
	for n := len(all) - 1; n >= 0; n-- {
		p := &all[n]
		if p.PodUID == string(uidOf(pod)) && p.Ended.IsZero() && (container == "" || p.Container == container) {
			return p
		}
	}
	return nil
}

func (s *stage) exit(step Step) error {
	p := s.running(step.Pod, step.Container)
	if p == nil {
		return nil
	}
	s.say(types.UID(p.PodUID), "the process of %s ends with %d", p.Container, step.N)
	s.h.touched[p.ContainerID] = true
	_ = s.rt.ExitContainer(p.ContainerID, critest.Exit{Code: int32(step.N)}) // the process may just have ended
	return nil
}

func (s *stage) loseSandbox(step Step) error {
	p := s.running(step.Pod, "")
	if p == nil {
		return nil
	}
	s.say(types.UID(p.PodUID), "the sandbox is not ready any more")
	s.h.lostSandboxes[p.SandboxID] = time.Now()
	_ = s.rt.EditSandbox(p.SandboxID, func(st *runtimeapi.PodSandboxStatus) { // the sandbox may just have been removed
		st.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	})
	return nil
}

// latency is the minimum duration of each call and each event, so that few things happen at the same
// instant and their order is known.
const latency = 3 * time.Millisecond

// chaosDelay is the maximum duration of a call with a random fault.
const chaosDelay = 8 * time.Second

func (s *stage) chaos(step Step) error {
	s.say("", "from now on %d of 100 calls and events go wrong", step.N)
	s.h.chaos = append(s.h.chaos, span{from: time.Now()})
	share := float64(step.N) / 100
	return s.rt.SetRandom(faults.Random{
		Seed: s.h.scenario.Seed, Latency: latency, Rate: share, EventRate: share, MaxDelay: chaosDelay, Methods: struckByChance,
	})
}

// struckByChance are the methods with random faults: all methods that agents use for pods. No document
// promises that an agent tolerates a runtime without a name or version.
var struckByChance = []critest.Method{
	critest.RunPodSandbox, critest.StopPodSandbox, critest.RemovePodSandbox, critest.PodSandboxStatus, critest.ListPodSandbox,
	critest.CreateContainer, critest.StartContainer, critest.StopContainer, critest.RemoveContainer, critest.ContainerStatus, critest.ListContainers,
	critest.PullImage, critest.ImageStatus,
}

// watch records a period in which the scenario does nothing to the node.
func (s *stage) watch(step Step) error {
	from := time.Now()
	if err := s.pass(seconds(step.For)); err != nil {
		return err
	}
	s.h.watched = append(s.h.watched, span{from, time.Now()})
	return nil
}

func (s *stage) say(uid types.UID, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.acts = append(s.h.acts, act{time.Now(), uid, fmt.Sprintf(format, args...)})
}

// life returns a pod's podLife.
func (s *stage) life(uid types.UID) *podLife {
	l := s.h.pods[uid]
	if l == nil {
		l = &podLife{uid: uid}
		s.h.pods[uid] = l
	}
	return l
}

// report receives a status from the agent.
func (s *stage) report(uid types.UID, st v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.statuses = append(s.h.statuses, reported{time.Now(), uid, *st.DeepCopy()})
}
