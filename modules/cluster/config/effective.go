package config

import (
	"maps"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// masked stands for a value that may be a secret.
const masked = "<masked>"

// Effective returns a loaded configuration as /configz shows it: with the effective defaults of
// empty fields, and without the values of staticPodURLHeader, which may be secrets.
func Effective(c *kubelet.KubeletConfiguration) *kubelet.KubeletConfiguration {
	c = c.DeepCopy()
	orZero(&c.ContainerLogMaxSize, "10Mi")
	orElse(&c.ContainerLogMaxFiles, 5)
	if merge := *c.MergeDefaultEvictionSettings; c.EvictionHard == nil || merge {
		hard := map[string]string{}
		for signal, value := range eviction.DefaultHard() {
			hard[string(signal)] = value
		}
		maps.Copy(hard, c.EvictionHard)
		c.EvictionHard = hard
	}
	orZero(&c.EvictionPressureTransitionPeriod.Duration, 5*time.Minute)
	for name := range c.StaticPodURLHeader {
		c.StaticPodURLHeader[name] = []string{masked}
	}
	return c
}
