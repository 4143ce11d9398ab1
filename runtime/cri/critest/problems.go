package critest

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Problems returns why containers did not start, commands were not found, images were not pulled and ports did not answer,
// each reason once, in the order of their first occurrences; injected faults are none. They are why a pod never becomes ready:
// [Start] and [NewNode] log them if the test fails and has the methods Failed and Log of a testing.T. If Config.JournalLimit
// is set, older calls are forgotten.
func (r *Runtime) Problems() []string {
	var all []string
	add := func(text string) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	for _, c := range r.Journal().Of(RunPodSandbox, PullImage, CreateContainer, StartContainer, ExecSync) {
		if c.Err == nil || c.Fault != "" || status.Code(c.Err) == codes.Canceled {
			continue
		}
		object := c.Image
		if c.Pod != "" {
			object = c.Namespace + "/" + c.Pod
		}
		if c.Pod != "" && c.Container != "" {
			object += " " + c.Container
		}
		add(string(c.Method) + " " + object + ": " + status.Convert(c.Err).Message())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(all, r.silent...)
}

// maxSilent limits the ports that Problems reports.
const maxSilent = 100

// noteSilent records that nothing listens on a port.
func (r *Runtime) noteSilent(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.silent) < maxSilent && !slices.Contains(r.silent, text) {
		r.silent = append(r.silent, text)
	}
}

// logProblems logs the problems of a runtime whose test has failed.
func logProblems(t TB, r *Runtime) {
	test, ok := t.(interface {
		Failed() bool
		Log(args ...any)
	})
	if !ok || !test.Failed() {
		return
	}
	for _, text := range r.Problems() {
		test.Log("critest: " + text)
	}
}
