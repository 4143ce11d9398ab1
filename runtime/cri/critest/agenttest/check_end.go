package agenttest

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var endPromises = []Promise{
	{
		Name: "arrives", Sentence: "When the faults have ended, desired pods run, and pods that can finish have finished.",
		Source: docStatic, Breaks: "kubernetes #118321",
		Evidence: "The lists of the runtime at the end of the run, after its whole patience. The time is reported as a figure.",
		check:    (*history).arrives,
	},
	{
		Name: "newest-runs", Sentence: "A container whose image has changed is replaced by one with the new image.",
		Source:   docPod,
		Evidence: "Running containers at the end of the run.",
		check:    (*history).newestRuns,
	},
	{
		Name: "deadline", Sentence: "A pod does not run for longer than its activeDeadlineSeconds.",
		Source:   docPod,
		Evidence: "Processes, from the pod's first process or the last start of the agent, whichever is later. The grace period and 20 s more are accepted.",
		check:    (*history).deadline,
	},
}

// missing describes, for each pod, its difference to the desired state.
func (h *history) missing() map[types.UID]string {
	all := map[types.UID]string{}
	for uid, l := range h.pods {
		what := h.leftOf(uid)
		if l.isWanted() {
			what = h.lackOf(l)
		}
		if what != "" {
			all[uid] = what
		}
	}
	return all
}

// leftOf describes the objects of a pod that the runtime still has, "" for none.
func (h *history) leftOf(uid types.UID) string {
	sandboxes, containers := 0, 0
	for _, sb := range h.sandboxes {
		if sb.GetMetadata().GetUid() == string(uid) {
			sandboxes++
		}
	}
	in := h.sandboxesOf(uid)
	for _, c := range h.containers {
		if in[c.PodSandboxId] {
			containers++
		}
	}
	if sandboxes+containers == 0 {
		return ""
	}
	return fmt.Sprintf("%d sandboxes and %d containers are", sandboxes, containers)
}

// sandboxesOf returns the IDs of all sandboxes that the pod has had.
func (h *history) sandboxesOf(uid types.UID) map[string]bool {
	in := map[string]bool{}
	for _, sb := range h.sandboxes {
		in[sb.Id] = in[sb.Id] || sb.GetMetadata().GetUid() == string(uid)
	}
	for _, p := range h.of(uid) {
		in[p.SandboxID] = true
	}
	return in
}

// lackOf describes what a desired pod lacks.
func (h *history) lackOf(l *podLife) string {
	ready := 0
	for _, sb := range h.sandboxes {
		if sb.GetMetadata().GetUid() == string(l.uid) && sb.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	var lack []string
	switch l.kind().outcome {
	case finishes:
		if !h.allEnded(l) || !h.began(l) && l.pod().Spec.ActiveDeadlineSeconds == nil || ready > 0 {
			lack = append(lack, fmt.Sprintf("it has not finished: %d sandboxes are ready", ready))
		}
	case runs:
		for _, c := range l.pod().Spec.Containers {
			if n := h.live(l.uid, c.Name); n != 1 {
				lack = append(lack, fmt.Sprintf("%s runs %d times", c.Name, n))
			}
		}
		fallthrough
	case restarts:
		if ready != 1 || !h.began(l) {
			lack = append(lack, fmt.Sprintf("%d of its sandboxes are ready", ready))
		}
	}
	return strings.Join(lack, ", ")
}

// began reports whether any container in the pod has run since the pod was last added.
func (h *history) began(l *podLife) bool {
	for _, p := range h.of(l.uid) {
		if l.round(p.Started) == len(l.wanted)-1 {
			return true
		}
	}
	return false
}

// live returns how many processes in a container run at the end.
func (h *history) live(uid types.UID, container string) int {
	n := 0
	for _, p := range h.of(uid) {
		if p.Container == container && p.Ended.IsZero() {
			n++
		}
	}
	return n
}

func (h *history) arrives(v *verdict) {
	missing := h.missing()
	for _, l := range h.inOrder() {
		if l.isWanted() {
			v.want(missing[l.uid] == "", at{uid: l.uid, t: h.settled}, "%v after the last trouble was over: %s", h.settled.Sub(h.peace).Round(time.Second), missing[l.uid])
		}
	}
	v.took("from the last fault to all pods as desired", h.settled.Sub(h.peace))
}

func (h *history) newestRuns(v *verdict) {
	for _, c := range h.containers {
		l := h.podOf(c)
		if l == nil || len(l.versions) == 1 || !l.isWanted() || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		spec, _ := containerNamed(l.pod(), c.GetMetadata().GetName())
		got := h.imageOf(c)
		v.want(got == spec.Image, at{uid: l.uid, t: h.end, container: c.Id}, "%s runs the image %s, want %s", spec.Name, got, spec.Image)
	}
}

// imageOf returns the requested image of a container. A kubelet requests the ID of the image, and
// puts its name in another field.
func (h *history) imageOf(c *runtimeapi.Container) string {
	if name := c.GetImage().GetUserSpecifiedImage(); name != "" {
		return name
	}
	return c.GetImage().GetImage()
}

func (h *history) podOf(c *runtimeapi.Container) *podLife {
	for uid, l := range h.pods {
		if h.sandboxesOf(uid)[c.PodSandboxId] {
			return l
		}
	}
	return nil
}

func (h *history) deadline(v *verdict) {
	for _, l := range h.inOrder() {
		limit := l.pod().Spec.ActiveDeadlineSeconds
		all := h.of(l.uid)
		if limit == nil || len(all) == 0 {
			continue
		}
		from := all[0].Started
		if last := h.lives[len(h.lives)-1].from; last.After(from) {
			from = last
		}
		until := from.Add(time.Duration(*limit)*time.Second + endsSoon + l.grace() + endsSoon)
		if !l.wantedThroughout(all[0].Started, until) {
			continue
		}
		for _, p := range all {
			if h.heldUp(p, from, until) {
				continue
			}
			v.want(!runsAt(p, until), at{uid: l.uid, t: until, container: p.ContainerID}, "%s still ran %v after %s, the pod has %d s",
				p.Container, until.Sub(from), h.clock(from), *limit)
		}
	}
}

var sandboxPromises = []Promise{
	{
		Name: "one-sandbox", Sentence: "A pod has one sandbox at a time: no sandbox is created while a container runs in another one of the pod.",
		Source: docPod, Breaks: "containerd #11029",
		Evidence: "RunPodSandbox calls, and processes whose start the agent knows of.",
		check:    (*history).oneSandbox,
	},
	{
		Name: "sandbox-names-unique", Sentence: "Each new sandbox of a pod has its own name, with another attempt.",
		Source: docCRI, Breaks: "containerd #12438",
		Evidence: "RunPodSandbox calls. The agent may repeat a call whose success it does not know, and the attempts of a pod may start again after the pod was removed and added again.",
		check:    (*history).sandboxNames,
	},
	{
		Name: "stopped-before-removed", Sentence: "A sandbox is stopped before it is removed, so that its network is released.",
		Source: docCRI, Breaks: "containerd #5768",
		Evidence: "A StopPodSandbox that succeeded, at any time before RemovePodSandbox.",
		check:    (*history).stoppedFirst,
	},
}

func (h *history) oneSandbox(v *verdict) {
	for _, c := range h.callsOf(critest.RunPodSandbox) {
		for _, p := range h.of(types.UID(c.PodUID)) {
			start, known := h.startOf(p)
			v.want(!known || !runsAt(p, c.Start) || start.End.Add(noted).After(c.Start), atCall(c),
				"another sandbox was requested while %s, started at %s, ran in the previous one", p.Container, h.clock(p.Started))
		}
	}
}

func (h *history) sandboxNames(v *verdict) {
	made := map[string]call{}
	for _, c := range h.callsOf(critest.RunPodSandbox) {
		l := h.pods[types.UID(c.PodUID)]
		if l == nil {
			continue
		}
		key := fmt.Sprint(c.PodUID, c.Attempt, l.round(c.Start))
		before, ok := made[key]
		ok = ok && !h.recordsLost(before.Start, c.Start) && before.End.Add(noted).Before(c.Start)
		v.want(!ok, atCall(c), "the sandbox that was created at %s had the same attempt %d", h.clock(before.Start), c.Attempt)
		if h.answered(c) {
			made[key] = c
		}
	}
}

func (h *history) stoppedFirst(v *verdict) {
	stopped := map[string]bool{}
	for _, c := range h.callsOf(critest.StopPodSandbox, critest.RemovePodSandbox) {
		switch {
		case c.Method == critest.StopPodSandbox:
			stopped[c.SandboxID] = stopped[c.SandboxID] || c.Err == nil
		case c.Err == nil:
			v.want(stopped[c.SandboxID], atCall(c), "no StopPodSandbox of this sandbox had succeeded")
		}
	}
}

var imagePromises = []Promise{
	{
		Name: "pull-never", Sentence: "With the pull policy Never no image is pulled.",
		Source:   docImages,
		Evidence: "PullImage calls for images of such containers.",
		check: func(h *history, v *verdict) {
			h.pulls(v, v1.PullNever, func(call, v1.Container) (bool, string) { return false, "its policy is Never" })
		},
	},
	{
		Name: "pull-if-not-present", Sentence: "With the pull policy IfNotPresent, a present image is not pulled.",
		Source:   docImages,
		Evidence: "PullImage calls for images that were present at the start.",
		check: func(h *history, v *verdict) {
			h.pulls(v, v1.PullIfNotPresent, func(c call, _ v1.Container) (bool, string) {
				return !strings.HasSuffix(c.Image, ":1"), "it is on the node"
			})
		},
	},
	{
		Name: "pull-always", Sentence: "With the pull policy Always, an image is pulled before each start.",
		Source:   docImages,
		Evidence: "A successful PullImage between each successful CreateContainer and the previous one of the container.",
		check:    (*history).pullsAlways,
	},
}

// pulls judges the pulls of images with a policy, each used by one container.
func (h *history) pulls(v *verdict, policy v1.PullPolicy, allowed func(call, v1.Container) (bool, string)) {
	for _, l := range h.inOrder() {
		for _, version := range l.versions {
			for _, c := range append(version.pod.Spec.InitContainers, version.pod.Spec.Containers...) {
				if c.ImagePullPolicy != policy {
					continue
				}
				v.judged++
				for _, call := range h.callsOf(critest.PullImage) {
					if call.Image == c.Image {
						ok, why := allowed(call, c)
						where := atCall(call)
						where.uid = l.uid
						v.want(ok, where, "%s was pulled: %s", c.Image, why)
					}
				}
			}
		}
	}
}

func (h *history) pullsAlways(v *verdict) {
	created := map[string]call{}
	for _, c := range h.callsOf(critest.CreateContainer) {
		l := h.pods[types.UID(c.PodUID)]
		if l == nil || c.Err != nil {
			continue
		}
		spec, _ := containerNamed(l.pod(), c.Container)
		if spec.ImagePullPolicy != v1.PullAlways {
			continue
		}
		key := c.PodUID + c.Container
		v.want(h.pulledSince(spec.Image, created[key].Start, c.Start), atCall(c), "%s was created, and %s was not pulled since %s", c.Container, spec.Image, h.clock(created[key].Start))
		created[key] = c
	}
}

func (h *history) pulledSince(image string, from, to time.Time) bool {
	for _, c := range h.callsOf(critest.PullImage) {
		if c.Image == image && c.Done() && c.Err == nil && !c.Start.Before(from) && !c.End.After(to) {
			return true
		}
	}
	return false
}
