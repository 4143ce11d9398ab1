package critest

import (
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The pods of https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/ behave as that page describes.
func TestStress(t *testing.T) {
	for name, tc := range map[string]struct {
		limit   int64
		command []string
		killed  bool
	}{
		"below its limit": {200 << 20, []string{"stress", "--vm", "1", "--vm-bytes", "150M", "--vm-hang", "1"}, false},
		"above it":        {100 << 20, []string{"stress", "--vm", "1", "--vm-bytes", "250M", "--vm-hang", "1"}, true},
		"in a shell":      {100 << 20, []string{"sh", "-c", "sleep 1; stress --vm 2 --vm-bytes 60M"}, true},
		"without a limit": {0, []string{"stress", "--vm", "1", "--vm-bytes", "150M"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBubble(t, Config{}, func(n *node) {
				sandbox := n.newSandbox("uid")
				id := n.newContainer(sandbox, "uid", tc.command...)
				_, err := n.rt.UpdateContainerResources(n.Context(), &runtimeapi.UpdateContainerResourcesRequest{
					ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: tc.limit},
				})
				n.ok(err)
				n.ok(n.startIt(id))
				time.Sleep(2 * time.Second)
				st, err := n.inspect(id)
				n.ok(err)
				if killed := st.GetReason() == "OOMKilled" && st.GetExitCode() == 137; killed != tc.killed {
					n.Errorf("%v, want OOMKilled %v", st, tc.killed)
				}
				if tc.killed {
					return
				}
				stats, err := n.rt.ContainerStats(n.Context(), &runtimeapi.ContainerStatsRequest{ContainerId: id})
				n.ok(err)
				if used := stats.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); used != 150<<20 {
					n.Errorf("%d bytes of memory, want %d", used, 150<<20)
				}
				n.ok(n.stopIt(n.Context(), id, 5))
			})
		})
	}
}

func TestStressArguments(t *testing.T) {
	for args, want := range map[string]uint64{
		"": 0, "--vm 2": 512 << 20, "-m 1 --vm-bytes 1G": 1 << 30, "--cpu 4 --vm 3 --vm-bytes 5K": 15 << 10, "--vm 1 --vm-bytes 7": 7,
	} {
		if got, err := stressBytes(strings.Fields(args)); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", args, got, err, want)
		}
	}
	for _, args := range []string{"--vm", "--vm x", "--vm 1 --vm-bytes 1T", "--vm 1 --vm-bytes 1KK", "--vm 65535 --vm-bytes 4294967295G"} {
		if got, err := stressBytes(strings.Fields(args)); err == nil {
			t.Errorf("%q: %d, want an error", args, got)
		}
	}
}
