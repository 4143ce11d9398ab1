package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// protect applies maxOpenFiles and oomScoreAdj of the configuration to this process. The kernel refuses them to a process
// without CAP_SYS_RESOURCE, such as one in a container.
func protect(k *kubelet.KubeletConfiguration) (failed error) {
	if most := uint64(k.MaxOpenFiles); most > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			failed = fmt.Errorf("maxOpenFiles: %w", err)
		}
	}
	if k.OOMScoreAdj != nil {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(int(*k.OOMScoreAdj))), 0o644); err != nil {
			failed = errors.Join(failed, fmt.Errorf("oomScoreAdj: %w", err))
		}
	}
	return failed
}
