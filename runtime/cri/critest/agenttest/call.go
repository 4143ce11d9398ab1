package agenttest

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// call is one call of the agent. Its messages are decoded once, because checks read them often.
type call struct {
	critest.Call
	request, response proto.Message
}

// callsIn returns the agent's calls in a journal.
func callsIn(j critest.Journal) []call {
	var all []call
	for _, c := range j {
		if ofAgent(c) {
			all = append(all, call{c, c.Request(), c.Response()})
		}
	}
	return all
}

// callsOf returns the calls of some methods.
func (h *history) callsOf(methods ...critest.Method) []call {
	return h.callsThat(func(c call) bool { return slices.Contains(methods, c.Method) })
}

func (h *history) callsThat(keep func(call) bool) []call {
	return slices.DeleteFunc(slices.Clone(h.calls), func(c call) bool { return !keep(c) })
}

// execs returns a command's runs in a container.
func (h *history) execs(containerID, command string) []call {
	return h.callsThat(func(c call) bool {
		q, ok := c.request.(*runtimeapi.ExecSyncRequest)
		return ok && c.ContainerID == containerID && strings.Join(q.GetCmd(), " ") == command
	})
}

// succeeded reports whether a command ran in a container and ended with exit code 0.
func (c call) succeeded() bool {
	answer, ok := c.response.(*runtimeapi.ExecSyncResponse)
	return ok && answer.GetExitCode() == 0
}

// timeout returns the timeout for a StopContainer, in seconds.
func (c call) timeout() int64 {
	q, _ := c.request.(*runtimeapi.StopContainerRequest)
	return q.GetTimeout()
}
