package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/source"
)

const apiVersion, kind = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"

// Load reads a configuration. The warnings name the fields that are set and have no effect, in alphabetical order. The
// error names the first refused field. [Fields] lists all fields.
func Load(s Sources) (c *kubelet.KubeletConfiguration, warnings []string, err error) {
	text, err := s.merged()
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	c, warnings, err = parse(text, s.Flags)
	if err != nil {
		return nil, nil, fmt.Errorf("config: %s: %w", s.File, err)
	}
	return c, warnings, nil
}

// maxFile is the maximum size of the file in bytes: several times the size of a configuration with all fields and
// comments.
const maxFile = 256 << 10

// read reads a regular file: opening a FIFO would wait for a writer.
func read(path string) ([]byte, error) { return hostfs.ReadPath(path, maxFile) }

// toJSON converts YAML to JSON, with limits that the yaml package does not have.
func toJSON(text []byte) ([]byte, error) {
	text, duplicates, err := source.YAMLToJSON(text)
	return text, errors.Join(err, duplicates)
}

func decode(text []byte) (*kubelet.KubeletConfiguration, error) {
	var c kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, err
	}
	if c.APIVersion != apiVersion || c.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %q and %q", c.APIVersion, c.Kind, apiVersion, kind)
	}
	return &c, nil
}

func parse(text []byte, flags func(*kubelet.KubeletConfiguration)) (*kubelet.KubeletConfiguration, []string, error) {
	c, err := decode(text)
	if err != nil {
		return nil, nil, err
	}
	if flags != nil {
		flags(c)
	}
	// unheeded runs before the defaults are set, because a field with only a default counts as not set.
	warnings, err := unheeded(c)
	if err != nil {
		return nil, nil, err
	}
	setDefaults(c)
	if err := reserveCPUs(c); err != nil {
		return nil, nil, err
	}
	if err := check(c); err != nil {
		return nil, nil, err
	}
	return c, append(warnings, ignoredSignals(c)...), nil
}

// check rejects settings that the node does not support.
func check(c *kubelet.KubeletConfiguration) error {
	switch {
	case c.ContainerRuntimeEndpoint == "":
		return errors.New("containerRuntimeEndpoint is missing")
	case c.MaxPods < 0:
		return fmt.Errorf("maxPods is %d, want 0 or more", c.MaxPods)
	case (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == ""):
		return errors.New("of tlsCertFile and tlsPrivateKeyFile one is missing")
	case *c.Authentication.Anonymous.Enabled:
		return errors.New("authentication.anonymous.enabled is true: anonymous requests are not supported")
	case c.Authorization.Mode != kubelet.KubeletAuthorizationModeWebhook:
		return fmt.Errorf("authorization.mode is %q, want %q", c.Authorization.Mode, kubelet.KubeletAuthorizationModeWebhook)
	}
	if port := *c.HealthzPort; port < 0 || port > 65535 {
		return fmt.Errorf("healthzPort is %d, want 0 to 65535", port)
	}
	if _, err := netip.ParseAddr(c.HealthzBindAddress); err != nil {
		return fmt.Errorf("healthzBindAddress is %q, want an IP address", c.HealthzBindAddress)
	}
	if _, _, err := Images(c); err != nil {
		return err
	}
	if _, _, err := Logs(c); err != nil {
		return err
	}
	if _, err := Eviction(c); err != nil {
		return err
	}
	if _, err := Shutdown(c); err != nil {
		return err
	}
	return refuse(c)
}

func setDefaults(c *kubelet.KubeletConfiguration) {
	orElse(&c.EnableServer, true)
	orElse(&c.Authentication.Anonymous.Enabled, false)
	orElse(&c.Authentication.Webhook.Enabled, true)
	orElse(&c.CgroupsPerQOS, true)
	orElse(&c.CPUCFSQuota, true)
	orElse(&c.SerializeImagePulls, c.MaxParallelImagePulls == nil || *c.MaxParallelImagePulls < 2)
	orElse(&c.SeccompDefault, false)
	orElse(&c.NodeStatusMaxImages, 50)
	orElse(&c.ResolverConfig, "/etc/resolv.conf")
	orElse(&c.PodPidsLimit, -1)
	orElse(&c.KubeAPIQPS, 50)
	orElse(&c.EventRecordQPS, 50)
	orZero(&c.EventBurst, 100)
	orElse(&c.RegistryPullQPS, 5)
	orZero(&c.RegistryBurst, 10)
	orElse(&c.EnableDebuggingHandlers, true)
	orElse(&c.EnableSystemLogHandler, true)
	orElse(&c.FailSwapOn, true)
	orElse(&c.HealthzPort, 10248)
	orZero(&c.HealthzBindAddress, "127.0.0.1")
	orElse(&c.ImageGCHighThresholdPercent, 85)
	orElse(&c.ImageGCLowThresholdPercent, 80)
	orZero(&c.KubeAPIBurst, 100)
	orZero(&c.Address, "0.0.0.0")
	orZero(&c.Port, 10250)
	orZero(&c.MaxPods, 110)
	orZero(&c.PodLogsDir, sandbox.DefaultLogsRoot)
	orZero(&c.CgroupDriver, "cgroupfs")
	orZero(&c.Authorization.Mode, kubelet.KubeletAuthorizationModeWebhook)
	orZero(&c.NodeLeaseDurationSeconds, 40)
	orZero(&c.NodeStatusReportFrequency.Duration, cmp.Or(c.NodeStatusUpdateFrequency.Duration, 5*time.Minute))
	for field, d := range map[*metav1.Duration]time.Duration{
		&c.Authentication.Webhook.CacheTTL:            2 * time.Minute,
		&c.Authorization.Webhook.CacheAuthorizedTTL:   5 * time.Minute,
		&c.Authorization.Webhook.CacheUnauthorizedTTL: 30 * time.Second,
		&c.NodeStatusUpdateFrequency:                  10 * time.Second,
		&c.ImageMinimumGCAge:                          2 * time.Minute,
		&c.StreamingConnectionIdleTimeout:             4 * time.Hour,
	} {
		orZero(&field.Duration, d)
	}
	orElse(&c.LocalStorageCapacityIsolation, true)
	orElse(&c.MergeDefaultEvictionSettings, false)
}

func orElse[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func orZero[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}
