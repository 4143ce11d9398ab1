package config

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// masked replaces values that may be secret.
const masked = "<masked>"

// Effective returns a loaded configuration as /configz shows it: with a kubelet's defaults in place of empty fields, and
// without the values of staticPodURLHeader, which may be secret. Some clients read /configz, change a field and write all
// fields to a file. They rely on the defaults, because in their types an empty field is false or zero.
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
	completeDurations(c)
	completeRest(c)
	for name := range c.StaticPodURLHeader {
		c.StaticPodURLHeader[name] = []string{masked}
	}
	return c
}

// completeDurations sets the defaults of empty durations.
func completeDurations(c *kubelet.KubeletConfiguration) {
	orZero(&c.SyncFrequency.Duration, time.Minute)
	orZero(&c.FileCheckFrequency.Duration, 20*time.Second)
	orZero(&c.HTTPCheckFrequency.Duration, 20*time.Second)
	orZero(&c.VolumeStatsAggPeriod.Duration, time.Minute)
	orZero(&c.CPUManagerReconcilePeriod.Duration, 10*time.Second)
	orZero(&c.RuntimeRequestTimeout.Duration, 2*time.Minute)
	orElse(&c.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	orElse(&c.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})
	orElse(&c.CrashLoopBackOff.MaxContainerRestartPeriod, metav1.Duration{Duration: 5 * time.Minute})
}

// completeRest sets the defaults of the other empty fields, including fields without effect here.
func completeRest(c *kubelet.KubeletConfiguration) {
	for _, field := range []**bool{
		&c.EnableControllerAttachDetach, &c.MakeIPTablesUtilChains, &c.EnableProfilingHandler, &c.EnableDebugFlagsHandler,
		&c.FailCgroupV1, &c.RegisterNode,
	} {
		orElse(field, true)
	}
	orElse(&c.OOMScoreAdj, -999)
	orElse(&c.ContainerLogMaxWorkers, 1)
	orElse(&c.IPTablesMasqueradeBit, 14)
	orElse(&c.IPTablesDropBit, 15)
	orZero(&c.MaxOpenFiles, 1000000)
	orZero(&c.CPUManagerPolicy, "none")
	orZero(&c.MemoryManagerPolicy, kubelet.NoneMemoryManagerPolicy)
	orZero(&c.TopologyManagerPolicy, kubelet.NoneTopologyManagerPolicy)
	orZero(&c.TopologyManagerScope, kubelet.ContainerTopologyManagerScope)
	orZero(&c.HairpinMode, kubelet.PromiscuousBridge)
	orZero(&c.ContentType, "application/vnd.kubernetes.protobuf")
	orZero(&c.ConfigMapAndSecretChangeDetectionStrategy, kubelet.WatchChangeDetectionStrategy)
	orZero(&c.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
}
