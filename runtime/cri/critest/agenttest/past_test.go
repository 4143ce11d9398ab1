package agenttest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return noon.Add(seconds(s)) }

// forever is the end of a process that does not end.
const forever = -1

// past is an invented history. Its times are seconds from its beginning.
type past struct{ *history }

// newPast returns a history in which one agent runs for 1000 s without faults.
func newPast() *past {
	h := newHistory(Scenario{Name: "made-up"}, Config{Notice: time.Second})
	h.begin, h.peace, h.settled, h.end = noon, second(900), second(900), second(1000)
	h.lives = []span{{from: noon}}
	return &past{h}
}

// wanted makes a pod desired for a period.
func (p *past) wanted(name string, from, to float64) {
	pod := newPod(name, 1)
	l := p.pods[pod.UID]
	if l == nil {
		l = &podLife{uid: pod.UID}
		p.pods[pod.UID] = l
	}
	l.want(second(from), pod)
	if to != forever {
		l.drop(second(to))
	}
}

// call adds a call for a container of a pod, or for its sandbox if container is "".
func (p *past) call(m critest.Method, pod, container string, at float64, change ...func(*call)) {
	c := call{Call: critest.Call{
		N: len(p.calls) + 1, Method: m, Namespace: "default", Pod: pod, PodUID: uidIn(pod), SandboxID: pod + "/0",
		Container: container, Start: second(at), End: second(at),
	}}
	if container != "" {
		c.ContainerID = idOf(pod, container, 0)
	}
	for _, f := range change {
		f(&c)
	}
	p.calls = append(p.calls, c)
}

// uidIn returns the UID of a pod of the agent, or of the pod of another owner.
func uidIn(pod string) string {
	switch {
	case pod == "others":
		return string(others)
	case pod == "":
		return ""
	}
	return string(uidOf(pod))
}

func idOf(pod, container string, attempt uint32) string {
	return fmt.Sprint(pod, "/", container, "/", attempt)
}

func attempt(n uint32) func(*call) {
	return func(c *call) {
		c.Attempt = n
		if c.Container != "" {
			c.ContainerID = idOf(c.Pod, c.Container, n)
		}
	}
}

func inSandbox(id string) func(*call) { return func(c *call) { c.SandboxID = id } }

func ofImage(image string) func(*call) { return func(c *call) { c.Image, c.PodUID = image, "" } }

func with(timeout int64) func(*call) {
	return func(c *call) { c.request = &runtimeapi.StopContainerRequest{Timeout: timeout} }
}

// run makes a call a command that takes some seconds and ends with a code.
func run(took float64, code int32, command ...string) func(*call) {
	return func(c *call) {
		c.request, c.response = &runtimeapi.ExecSyncRequest{Cmd: command}, proto.Message(&runtimeapi.ExecSyncResponse{ExitCode: code})
		c.End = c.Start.Add(seconds(took))
	}
}

func failed(c *call) { c.Err = context.Canceled }

// ran adds the creation, the start and the run of a container.
func (p *past) ran(pod, container string, n uint32, from, to float64, code int32, change ...func(*call)) {
	p.call(critest.CreateContainer, pod, container, from, append([]func(*call){attempt(n)}, change...)...)
	p.call(critest.StartContainer, pod, container, from, append([]func(*call){attempt(n)}, change...)...)
	c := p.calls[len(p.calls)-1]
	process := critest.Process{
		PodUID: string(uidOf(pod)), SandboxID: c.SandboxID, Container: container, ContainerID: c.ContainerID, Attempt: n, Started: second(from), ExitCode: code,
	}
	if to != forever {
		process.Ended = second(to)
	}
	p.processes = append(p.processes, process)
}

// reports adds a status to the history, as if the agent had reported it.
func (p *past) reports(pod string, at float64, phase v1.PodPhase, c v1.ContainerStatus) {
	p.statuses = append(p.statuses, reported{second(at), uidOf(pod), v1.PodStatus{Phase: phase, ContainerStatuses: []v1.ContainerStatus{c}}})
}

func ended(pod, container string, code int32) v1.ContainerStatus {
	end := &v1.ContainerStateTerminated{ExitCode: code, ContainerID: "x://" + idOf(pod, container, 0)}
	return v1.ContainerStatus{Name: container, State: v1.ContainerState{Terminated: end}}
}

func (p *past) sandbox(id, pod string, state runtimeapi.PodSandboxState) {
	p.sandboxes = append(p.sandboxes, &runtimeapi.PodSandbox{Id: id, State: state, Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uidOf(pod))}})
}

// finish sorts the history, and adds a sandbox for each pod that should have one at the end.
func (p *past) finish() *history {
	slices.SortStableFunc(p.calls, func(a, b call) int { return a.Start.Compare(b.Start) })
	slices.SortStableFunc(p.processes, func(a, b critest.Process) int { return a.Started.Compare(b.Started) })
	for uid, l := range p.pods {
		has := slices.ContainsFunc(p.sandboxes, func(sb *runtimeapi.PodSandbox) bool { return types.UID(sb.Metadata.Uid) == uid })
		if l.isWanted() && l.kind().outcome != finishes && !has {
			p.sandbox(l.pod().Name+"/0", l.pod().Name, runtimeapi.PodSandboxState_SANDBOX_READY)
		}
	}
	return p.history
}
