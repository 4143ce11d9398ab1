//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// An offence is an attack on a node by a pod's first container.
type offence struct {
	name   string
	attack []string
	// change adds to the pod.
	change func(s *siege, l level, p *v1.Pod)
	// root: without root in the container it is none.
	root bool
	// evicted is the beginning of the message of the pod's eviction, empty if it is not evicted.
	evicted string
	// event is the reason of an event that names the pod, and its message contains words.
	event, words string
	// check waits while the pod runs. Default: a moment.
	check func(s *siege, p *v1.Pod) error
}

const (
	byVolume  = `Usage of EmptyDir volume "scratch" exceeds the limit "8Mi"`
	byPod     = "Pod ephemeral local storage usage exceeds the total limit of containers 8Mi"
	byStorage = "ephemeral" // the words depend on the part that exceeds its limit
)

// gluttons returns the attacks that write too much. Their pods are evicted, wherever and however they write.
func (s *siege) gluttons() []offence {
	return []offence{
		{name: "volume", attack: []string{"fill", "/scratch/data"}, change: limitVolume, evicted: byVolume},
		{name: "layer", attack: []string{"fill", "/tmp/data"}, change: limitStorage, evicted: byStorage},
		{name: "log", attack: []string{"fill", "/dev/stdout"}, change: limitStorage, evicted: byStorage},
		{name: "hosts", attack: []string{"fill", "/etc/hosts"}, change: limitStorage, root: true, evicted: byPod},
		{name: "message", attack: []string{"fill", "/dev/termination-log"}, change: limitStorage, evicted: byPod},
		{name: "bytes", attack: []string{"bytes"}, change: limitVolume, evicted: byVolume},
		{name: "deep", attack: []string{"deep", fmt.Sprint(s.levels)}, change: limitVolume, evicted: byVolume},
		{name: "many", attack: []string{"many", fmt.Sprint(s.files)}, change: limitVolume, evicted: byVolume},
		{name: "churn", attack: []string{"churn"}, change: limitVolume, evicted: byVolume},
		{name: "shuttle", attack: []string{"shuttle"}, change: limitStorage, evicted: byPod},
		{name: "attributes", attack: []string{"attributes"}, change: limitVolume, evicted: byVolume},
	}
}

// pests returns the attacks that do something else to the node. They end soon after they begin.
func (s *siege) pests() []offence {
	all := []offence{
		{name: "sparse", attack: []string{"sparse"}, check: runsAgain},
		{name: "masquerade", attack: []string{"masquerade"}},
		{name: "subpaths", attack: []string{"flip", "/scratch", s.canary}, change: spies},
		{name: "sunk", attack: []string{"sink"}, change: mountedBySibling, check: movedWhileMounted},
		{name: "forged", attack: []string{"forge", s.volumeOfAnother()}, change: mountedBySibling, check: movedWhileMounted},
		{name: "hostpaths", attack: []string{"flip", "/host", s.canary}, change: shared, check: (*siege).volumesBelow},
		{name: "crash", attack: []string{"crash"}, change: fallsBack, check: runsAgain},
		{name: "fork", attack: []string{"fork"}}, {name: "zombies", attack: []string{"zombies"}},
		{name: "cgroups", attack: []string{"cgroups"}},
		{name: "memory", attack: []string{"memory"}, check: outOfMemory},
		{name: "deaf", attack: []string{"deaf"}, change: preStopWithoutEnd},
		{name: "exec", attack: []string{"deaf"}, check: (*siege).lookInside},
		{name: "probes", attack: []string{"answers", s.port}, change: endlessProbes, event: "Unhealthy", words: "probe"},
		{name: "outputs", attack: []string{"deaf"}, change: largeOutputs, event: "Unhealthy", words: "probe", check: (*siege).probedForAWhile},
		{name: "hooks", attack: []string{"answers", s.port}, change: endlessHooks, check: (*siege).hooksBegun},
	}
	all = append(all, s.shells()...)
	all = append(all, s.texts()...)
	for _, kind := range []string{"lines", "endless", "bytes", "empty"} {
		all = append(all, offence{name: "flood-" + kind, attack: []string{"flood", kind}, check: (*siege).readLogs})
	}
	for _, kind := range []string{"sparse", "endless", "pipe", "socket", "zero", "link", "loop", "out", "dir"} {
		all = append(all, offence{name: "env-" + kind, attack: []string{"envfile", kind}, change: envFile, event: "Failed", words: "env"})
	}
	return all
}

// fallsBack makes the end of the log the message of a container that failed.
func fallsBack(_ *siege, _ level, p *v1.Pod) {
	p.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
}

// preStopWithoutEnd gives the container a handler that prints endlessly.
func preStopWithoutEnd(_ *siege, _ level, p *v1.Pod) {
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/yes"}}}}
}

// envFile makes the attack leave a file of variables, from which the next container gets one.
func envFile(_ *siege, l level, p *v1.Pod) {
	p.Spec.InitContainers = p.Spec.Containers
	p.Spec.InitContainers[0].Name = "before"
	app := attacker(l, "app", "deaf")
	app.Env = []v1.EnvVar{{Name: "KEY", ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "scratch", Path: "env", Key: "KEY"}}}}
	p.Spec.Containers = []v1.Container{app}
}

// endlessProbes adds containers whose probes get endless responses, other ones at each level.
func endlessProbes(_ *siege, l level, p *v1.Pod) {
	handlers := []v1.ProbeHandler{
		{Exec: &v1.ExecAction{Command: []string{"/bin/yes"}}},
		{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "yes >&2"}}},
	}
	bodies, greetings := []int{8009, 8010, 8011}, []int{8012, 8013, 8014, 8015, 8016}
	if l == baseline {
		bodies, greetings = []int{8001, 8002, 8003, 8004, 8005, 8006, 8007, 8008}, []int{8006, 8007}
	}
	for _, port := range bodies {
		handlers = append(handlers, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(int32(port)), Path: "/"}})
	}
	for _, port := range greetings {
		handlers = append(handlers, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port)}})
	}
	for i, handler := range handlers {
		c := attacker(l, fmt.Sprint("probed", i), "deaf")
		c.Resources.Limits[v1.ResourceCPU] = resource.MustParse("50m")
		c.ReadinessProbe = &v1.Probe{ProbeHandler: handler, PeriodSeconds: 1, TimeoutSeconds: 1}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// largeOutputs adds containers whose probes print as much as the runtime passes on, at once.
func largeOutputs(_ *siege, l level, p *v1.Pod) {
	for i := range 12 {
		c := attacker(l, fmt.Sprint("probed", i), "deaf")
		c.ReadinessProbe = &v1.Probe{PeriodSeconds: 2, TimeoutSeconds: 20, ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "head -c 16000000 /dev/zero; exit 1"}},
		}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// probedForAWhile makes the probes run at the same time.
func (s *siege) probedForAWhile(p *v1.Pod) error {
	if err := s.running(p); err != nil {
		return err
	}
	time.Sleep(10 * time.Second)
	return nil
}

// endlessHooks adds containers whose handlers get answers without end.
func endlessHooks(_ *siege, l level, p *v1.Pod) {
	for i, handler := range []v1.LifecycleHandler{
		{Exec: &v1.ExecAction{Command: []string{"/bin/yes"}}},
		{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(8001), Path: "/"}},
		{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(8003), Path: "/"}},
		{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(8005), Path: "/"}},
	} {
		c := attacker(l, fmt.Sprint("hooked", i), "deaf")
		c.Lifecycle = &v1.Lifecycle{PreStop: &handler}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	last := attacker(l, "last", "deaf")
	last.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/yes"}}}}
	p.Spec.Containers = append(p.Spec.Containers, last)
}

// hooksBegun waits until all containers were started, the last one with a handler that never ends.
func (s *siege) hooksBegun(p *v1.Pod) error {
	err := s.until(patience, func() error {
		if n := len(s.events(p.UID, "Started")); n < len(p.Spec.Containers) {
			return fmt.Errorf("%d of the containers of %s were started", n, p.Name)
		}
		return nil
	})
	time.Sleep(2 * time.Second)
	return err
}

// runsAgain waits until the container was started again.
func runsAgain(s *siege, p *v1.Pod) error {
	return s.until(patience, func() error {
		for _, c := range s.status(p.UID).ContainerStatuses {
			if c.RestartCount > 0 {
				return nil
			}
		}
		return fmt.Errorf("%s has not been started again", p.Name)
	})
}

// outOfMemory waits until the kernel has ended the container.
func outOfMemory(s *siege, p *v1.Pod) error {
	return s.until(patience, func() error {
		for _, c := range s.status(p.UID).ContainerStatuses {
			for _, ended := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
				if ended != nil && (ended.Reason == "OOMKilled" || ended.ExitCode == 137) {
					return nil
				}
			}
		}
		return fmt.Errorf("%s has not been killed for the memory that it takes", p.Name)
	})
}

// volumesBelow creates pods that request directories of the node below the one that the pod changes.
func (s *siege) volumesBelow(p *v1.Pod) error {
	if err := s.running(p); err != nil {
		return err
	}
	for range 10 {
		p := s.below()
		if err := s.put(p); err != nil {
			return err
		}
		err := s.until(patience, func() error {
			if len(s.events(p.UID, "FailedMount")) == 0 {
				return fmt.Errorf("%s has no event FailedMount", p.Name)
			}
			return nil
		})
		if err = errors.Join(err, s.remove(p)); err != nil {
			return fmt.Errorf("%w\n%s", err, s.story(p.UID))
		}
		s.forget(p.UID)
	}
	return nil
}

// lookInside runs commands in the container that print endlessly, for a caller that reads everything, a caller that reads
// nothing, and a caller that requests the whole output.
func (s *siege) lookInside(p *v1.Pod) error {
	if err := s.running(p); err != nil {
		return err
	}
	whole := make(chan error, 1)
	go func() {
		_, err := s.looks("POST", "/run/"+p.Namespace+"/"+p.Name+"/app?cmd=/bin/yes", 4*time.Second)
		whole <- err
	}()
	err := s.nodeAgent(p, "exec", "--", "/bin/yes")
	<-whole // it ends with an error, or without
	return err
}

// readLogs follows the pod's log, for a caller that reads everything and a caller that reads nothing, and requests the end
// of the log.
func (s *siege) readLogs(p *v1.Pod) error {
	if err := s.running(p); err != nil {
		return err
	}
	_, err := s.looks("GET", "/containerLogs/"+p.Namespace+"/"+p.Name+"/app?tailLines=100000&limitBytes=1000000&timestamps=true", patience)
	if err != nil {
		return err
	}
	return s.nodeAgent(p, "logs", "-f", "-tail", "10")
}

// running waits until the pod's first container runs.
func (s *siege) running(p *v1.Pod) error {
	return s.until(patience, func() error {
		if c := s.status(p.UID).ContainerStatuses; len(c) == 0 || c[0].State.Running == nil {
			return fmt.Errorf("%s does not run", p.Name)
		}
		return nil
	})
}

// commit runs a pod that attacks the node, and removes it. It calls settled when the pod only waits.
func (s *siege) commit(o offence, l level, settled func()) error {
	p := s.pod(o.name, l)
	p.Spec.Containers = []v1.Container{attacker(l, "app", o.attack...)}
	if o.change != nil {
		o.change(s, l, p)
	}
	if err := s.put(p); err != nil {
		return err
	}
	err := s.judge(o, p, settled)
	if breach := s.breach(p); breach != nil {
		err = breach
	}
	err = errors.Join(err, s.remove(p))
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.story(p.UID))
	}
	s.forget(p.UID)
	return err
}

// judge waits until the attack has its expected result.
func (s *siege) judge(o offence, p *v1.Pod, settled func()) error {
	if o.evicted != "" {
		return s.eviction(o, p, settled)
	}
	if o.event != "" {
		err := s.until(patience, func() error {
			if !slices.ContainsFunc(s.events(p.UID, o.event), func(e string) bool { return strings.HasPrefix(e, p.Name+": ") && strings.Contains(e, o.words) }) {
				return fmt.Errorf("%s has no event %s with %q", p.Name, o.event, o.words)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if o.check != nil {
		return o.check(s, p)
	}
	if o.event == "" {
		if err := s.running(p); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second)
	return nil
}

// eviction waits until the pod was evicted, and checks the reports about it.
func (s *siege) eviction(o offence, p *v1.Pod, settled func()) error {
	if err := s.running(p); err != nil {
		return err
	}
	settled()
	err := s.until(evictedWithin, func() error {
		if status := s.status(p.UID); status.Phase != v1.PodFailed || status.Reason != "Evicted" || !strings.Contains(status.Message, o.evicted) {
			return fmt.Errorf("%s has not been evicted with %q, but is %s %s %s", p.Name, o.evicted, status.Phase, status.Reason, status.Message)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.until(patience, func() error {
		if events := s.events(p.UID, "Evicted"); len(events) == 0 || !strings.HasPrefix(events[0], p.Name+": ") || !strings.Contains(events[0], o.evicted) {
			return fmt.Errorf("%s was evicted, and its events are %q", p.Name, events)
		}
		return nil
	})
}

// breach reports a container that has read a file of the node.
func (s *siege) breach(p *v1.Pod) error {
	for _, c := range s.status(p.UID).ContainerStatuses {
		for _, ended := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if ended != nil && ended.ExitCode == 7 {
				return fmt.Errorf("container %s of %s has read a file of the node: %s", c.Name, p.Name, ended.Message)
			}
		}
	}
	return nil
}
