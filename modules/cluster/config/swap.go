package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/container"
)

// checkSwap returns an error that names failSwapOn or memorySwap if the machine does not meet it.
func checkSwap(c *kubelet.KubeletConfiguration, machine fs.FS) error {
	on, err := swapIsOn(machine)
	if err != nil {
		return fmt.Errorf("failSwapOn: %w", err)
	}
	v2, controller := swapController(machine)
	switch behavior := c.MemorySwap.SwapBehavior; {
	case behavior != "" && behavior != string(container.NoSwap) && behavior != string(container.LimitedSwap):
		return fmt.Errorf("memorySwap.swapBehavior is %q, want %q or %q", behavior, container.NoSwap, container.LimitedSwap)
	case on && *c.FailSwapOn:
		return errors.New("failSwapOn: swap is on; switch it off, or set failSwapOn to false")
	case on && behavior != "" && !(v2 && controller):
		return fmt.Errorf("memorySwap.swapBehavior is %s, and swap is on: without memory.swap.max of cgroup version 2 containers would use more", behavior)
	}
	return nil
}

// Swap returns how containers use the machine's swap. A kernel that cannot limit swap leaves it to the runtime.
func Swap(c *kubelet.KubeletConfiguration, machine fs.FS) container.Swap {
	v2, controller := swapController(machine)
	if !controller {
		return container.Swap{}
	}
	s := container.Swap{Behavior: container.NoSwap, CgroupV1: !v2}
	if c.MemorySwap.SwapBehavior == string(container.LimitedSwap) {
		s.Behavior, s.Bytes = container.LimitedSwap, swapBytes(machine)
	}
	return s
}

func swapIsOn(machine fs.FS) (bool, error) {
	swaps, err := readSmall(machine, "proc/swaps")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without swap has no such file
		return false, nil
	}
	return strings.Count(strings.TrimSpace(swaps), "\n") > 0, err
}

// swapController reports whether the machine has cgroups v2, and whether its cgroups limit swap. The root of version 2 has no
// limit itself.
func swapController(machine fs.FS) (v2, controller bool) {
	if _, err := fs.Stat(machine, "sys/fs/cgroup/cgroup.controllers"); err != nil {
		_, err = fs.Stat(machine, "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
		return false, err == nil
	}
	limits, err := fs.Glob(machine, "sys/fs/cgroup/*/memory.swap.max")
	return true, err == nil && len(limits) > 0
}

// swapBytes returns the swap's size, 0 if it is unknown.
func swapBytes(machine fs.FS) int64 {
	text, err := readSmall(machine, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "SwapTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 53)
			if err == nil && kib > 0 {
				return kib << 10
			}
		}
	}
	return 0
}
