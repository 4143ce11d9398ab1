package syncpod

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/memory"
)

// cpusets returns the CPUs and the memory nodes with which the containers of a pod should run, by name. A container that is not
// restricted has no entry.
func (s *Syncer) cpusets(pod *v1.Pod) map[string]runtime.CPUSet {
	if s.config.Extensions.CPUSets == nil {
		return nil
	}
	all := map[string]runtime.CPUSet{}
	for c := range runtime.AllContainers(pod) {
		if set := s.config.Extensions.CPUSets.CPUSet(pod, c.Name); set.CPUs != "" {
			all[c.Name] = set
		}
	}
	return all
}

// exclusiveCPUs reports whether a container of the pod has exclusive CPUs. Then the pod as a whole has no CPU quota either.
func (f *facts) exclusiveCPUs() bool {
	for _, set := range f.CPUSets {
		if set.Exclusive {
			return true
		}
	}
	return false
}

// moveAll changes the CPUs and the memory nodes of running containers. A failure does not delay the other containers.
func (s *Syncer) moveAll(ctx context.Context, d *decision, done outcome) outcome {
	for _, step := range d.plan.CPUSets {
		failed := d.facts.held.cpusets[step.Container.Name]
		if failed == nil {
			failed = s.move(ctx, d, step)
		}
		done.fail(failed)
	}
	return done
}

// move forgets the CPUs of a container before it changes them: if the answer is lost, or the agent is killed, the container may run
// on either, and must be moved again although the CPUs are meanwhile those of before.
func (s *Syncer) move(ctx context.Context, d *decision, step actions.CPUSetStep) *StepError {
	d.memory.setCPUSet(step.ID.ID, nil)
	d.memory.Record(ctx)
	_, err := s.config.Client.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: step.ID.ID, Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: step.CPUSet.CPUs, CpusetMems: step.CPUSet.Mems},
	})
	if err = d.memory.secrets.redactErrorOfPod(cri.Classify(err), d.pod); err != nil {
		failed := &StepError{Step: stepCPUSet, Reason: errMoveContainer, Container: step.Container, Err: err}
		d.memory.delayRetry(ctx, cpusetKey(step.Container.Name), failed)
		return failed
	}
	d.memory.succeeded(cpusetKey(step.Container.Name))
	d.memory.setCPUSet(step.ID.ID, &step.CPUSet)
	d.memory.Record(ctx)
	s.log(d.pod).Info("container moved", "container", step.Container.Name, "cpus", step.CPUSet.CPUs, "mems", step.CPUSet.Mems)
	return nil
}

// cpusetKey is the back-off key of failures to move a container. No start and no resize has this key.
func cpusetKey(container string) memory.Key {
	return memory.Key{Container: container, Resources: "cpuset"}
}

// startingCPUSet returns the CPUs and the memory nodes of a container that is about to be created.
func (c *Config) startingCPUSet(pod *v1.Pod, container string) runtime.CPUSet {
	if c.Extensions.CPUSets == nil {
		return runtime.CPUSet{}
	}
	c.Extensions.CPUSets.Starting(pod, container)
	return c.Extensions.CPUSets.CPUSet(pod, container)
}
