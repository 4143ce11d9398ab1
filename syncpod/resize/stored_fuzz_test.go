package resize_test

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/resize"
)

// FuzzAllocation checks that for any content of the file of an allocation, the pod can be resized and forgotten, and
// the next Allocator reads the same allocation.
func FuzzAllocation(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"version":1,"containers":{"app":{"requests":{"cpu":"2"},"limits":{"memory":"1Gi"}}},"requests":{"cpu":"2"}}`,
		`{"version":9,"containers":{"":{"requests":{"cpu":"-1e-30"}}}}`, `{"containers":{"app":{"requests":{"cpu":"9e999999999"}}}}`, `{"version":"x"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), text, 0o600))
		p := pod("a", "1", "1Gi")
		a := agent(t, dir)
		answer := must.Get(a.Allocate(t.Context(), p))(t)
		next := agent(t, dir)
		again := must.Get(next.Allocate(t.Context(), p))(t)
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			got, want := of(again, name), of(answer, name)
			if got != want {
				t.Errorf("%s is %s for the next Allocator, and was %s", name, got, want)
			}
		}
		must.Do(t, next.RemovePod(t.Context(), p.UID))
	})
}

func of(a resize.Answer, name v1.ResourceName) string {
	q := a.Pod.Spec.Containers[0].Resources.Requests[name]
	return q.String()
}
