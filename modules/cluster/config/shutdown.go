package config

import (
	"fmt"
	"math"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/shutdown"
)

// Shutdown returns how long pods may take to stop when the machine shuts down, from the kubelet's shutdownGracePeriod*
// fields. Its Total is 0 if the shutdown is not delayed.
func Shutdown(c *kubelet.KubeletConfiguration) (shutdown.Policy, error) {
	p := shutdown.Policy{GracePeriod: c.ShutdownGracePeriod.Duration, CriticalGracePeriod: c.ShutdownGracePeriodCriticalPods.Duration}
	const most = math.MaxInt64 / int64(time.Second)
	for i, group := range c.ShutdownGracePeriodByPodPriority {
		if group.ShutdownGracePeriodSeconds < 0 || group.ShutdownGracePeriodSeconds > most/int64(len(c.ShutdownGracePeriodByPodPriority)) {
			return p, fmt.Errorf("shutdownGracePeriodByPodPriority[%d].shutdownGracePeriodSeconds is %d, want 0 or more", i, group.ShutdownGracePeriodSeconds)
		}
		p.ByPriority = append(p.ByPriority, shutdown.Period{Priority: group.Priority, GracePeriod: time.Duration(group.ShutdownGracePeriodSeconds) * time.Second})
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("shutdownGracePeriod, shutdownGracePeriodCriticalPods and shutdownGracePeriodByPodPriority: %w", err)
	}
	return p, nil
}
