package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// A Treatment is what the node does with a field of a KubeletConfiguration.
type Treatment string

const (
	// Honoured means that the field has the same effect as in a kubelet, and that invalid values are rejected.
	Honoured Treatment = "honoured"
	// Refused means that the node does not start if the field requests something that the node does not support.
	Refused Treatment = "refused"
	// Meaningless means that the field has no effect here. If it is set, [Load] returns a warning.
	Meaningless Treatment = "meaningless"
)

// A Field is a field of a KubeletConfiguration, or of a struct in it.
type Field struct {
	// Name is the JSON name, such as "authentication.x509.clientCAFile".
	Name string
	// Treatment is what the node does with the field.
	Treatment Treatment
	// Reason says why the field is refused or meaningless. It is empty for honoured fields.
	Reason string
	// Granted are the values, as JSON, that request the node's fixed behaviour: they are accepted without a warning. A
	// field that is not set is always accepted.
	Granted []string
}

// Fields returns all fields of KubeletConfiguration v1beta1, in the order of the Go types.
func Fields() []Field {
	all := make([]Field, 0, 160)
	eachField(reflect.ValueOf(kubelet.KubeletConfiguration{}), "", func(name string, _ reflect.Value) {
		all = append(all, fieldOf(name))
	})
	return all
}

// fieldOf returns a field's row. The node does not start with a field that the table lacks: it may protect the node.
func fieldOf(name string) Field {
	if slices.Contains(honoured, name) {
		return Field{Name: name, Treatment: Honoured}
	}
	if i := slices.IndexFunc(others, func(f Field) bool { return f.Name == name }); i >= 0 {
		return others[i]
	}
	return Field{Name: name, Treatment: Refused, Reason: "the node does not know the field"}
}

// honoured are the fields with an effect.
var honoured = strings.Fields(`
	address allowedUnsafeSysctls apiVersion authentication.anonymous.enabled authentication.webhook.cacheTTL authentication.webhook.enabled
	authentication.x509.clientCAFile authorization.mode authorization.webhook.cacheAuthorizedTTL authorization.webhook.cacheUnauthorizedTTL
	cgroupDriver cgroupRoot cgroupsPerQOS clusterDNS clusterDomain containerLogMaxFiles containerLogMaxSize containerRuntimeEndpoint
	cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions crashLoopBackOff.maxContainerRestartPeriod enableDebuggingHandlers enableServer enableSystemLogHandler enforceNodeAllocatable
	eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft
	evictionSoftGracePeriod failCgroupV1 failSwapOn healthzBindAddress healthzPort imageGCHighThresholdPercent imageGCLowThresholdPercent
	imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy kind kubeAPIBurst kubeAPIQPS kubeReserved kubeReservedCgroup
	localStorageCapacityIsolation maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memorySwap.swapBehavior mergeDefaultEvictionSettings nodeLeaseDurationSeconds
	nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podLogsDir podPidsLimit podsPerCore port
	preloadedImagesVerificationAllowlist protectKernelDefaults providerID registerWithTaints registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf
	rotateCertificates seccompDefault serializeImagePulls serverTLSBootstrap shutdownGracePeriod shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath
	streamingConnectionIdleTimeout systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope tracing
	userNamespaces.idsPerPod`)

// others are the fields that are refused or meaningless.
var others = []Field{
	{Name: "syncFrequency", Treatment: Meaningless, Reason: "a pod is synced when something has changed, and not at intervals"},
	{Name: "fileCheckFrequency", Treatment: Meaningless, Reason: "the folder of static pods is watched"},
	{Name: "httpCheckFrequency", Treatment: Meaningless, Reason: "no pods are read from a URL"},
	{Name: "staticPodURL", Treatment: Refused, Reason: "no pods are read from a URL: write them to staticPodPath"},
	{Name: "staticPodURLHeader", Treatment: Refused, Reason: "no pods are read from a URL"},
	{Name: "readOnlyPort", Treatment: Refused, Reason: "the node serves no port without authentication"},
	{Name: "enableContentionProfiling", Treatment: Meaningless, Reason: "no profiles are served, which is stricter", Granted: []string{"false"}},
	{Name: "enableProfilingHandler", Treatment: Meaningless, Reason: "no profiles are served, which is stricter", Granted: []string{"false"}},
	{Name: "enableDebugFlagsHandler", Treatment: Meaningless, Reason: "no debug flags are served, which is stricter", Granted: []string{"false"}},
	{Name: "enableSystemLogQuery", Treatment: Meaningless, Reason: "/logs serves files and has no queries, which is stricter", Granted: []string{"false"}},
	{Name: "volumeStatsAggPeriod", Treatment: Meaningless, Reason: "volumes are measured when an eviction or a request needs their size"},
	{Name: "kubeletCgroups", Treatment: Meaningless, Reason: "the agent does not move itself: Slice= of its unit decides it"},
	{Name: "systemCgroups", Treatment: Refused, Reason: "the agent does not move processes of the machine: set Slice= in their units"},
	{Name: "cpuManagerReconcilePeriod", Treatment: Meaningless, Reason: "containers move to other CPUs as soon as the shared ones change"},
	{Name: "qosReserved", Treatment: Refused, Reason: "nothing would be reserved"},
	{Name: "runtimeRequestTimeout", Treatment: Meaningless, Reason: "each call of the runtime has a timeout of its own"},
	{Name: "hairpinMode", Treatment: Meaningless, Reason: "the CNI plugins of the runtime decide it; a kubelet does not read it either"},
	{Name: "podCIDR", Treatment: Meaningless, Reason: "a kubelet reads it only without an API server"},
	{Name: "runOnce", Treatment: Refused, Reason: "the agent runs until it is stopped", Granted: []string{"false"}},
	{Name: "contentType", Treatment: Meaningless, Reason: "requests are encoded as protobuf", Granted: []string{`"application/vnd.kubernetes.protobuf"`}},
	{Name: "enableControllerAttachDetach", Treatment: Refused, Reason: "the node attaches no volumes", Granted: []string{"true"}},
	{Name: "makeIPTablesUtilChains", Treatment: Meaningless, Reason: "the node writes no iptables rules; kube-proxy and CNI plugins write their own"},
	{Name: "iptablesMasqueradeBit", Treatment: Meaningless, Reason: "the node writes no iptables rules"},
	{Name: "iptablesDropBit", Treatment: Meaningless, Reason: "the node writes no iptables rules"},
	{Name: "featureGates", Treatment: Meaningless, Reason: "there are no feature gates: what is implemented is on"},
	{Name: "containerLogMaxWorkers", Treatment: Meaningless, Reason: "four logs are rotated at a time"},
	{Name: "containerLogMonitorInterval", Treatment: Meaningless, Reason: "logs are checked every 10 s"},
	{Name: "configMapAndSecretChangeDetectionStrategy", Treatment: Meaningless, Reason: "objects are watched", Granted: []string{`"Watch"`}},
	{Name: "showHiddenMetricsForVersion", Treatment: Meaningless, Reason: "no metric is hidden"},
	{Name: "defaultPodSysctls", Treatment: Refused, Reason: "no pod would have them"},
	{Name: "volumePluginDir", Treatment: Meaningless, Reason: "there are no FlexVolumes"},
	{Name: "kernelMemcgNotification", Treatment: Meaningless, Reason: "memory is measured at intervals"},
	{Name: "logging", Treatment: Meaningless, Reason: "lines of text go to stderr"},
	{Name: "memoryThrottlingFactor", Treatment: Meaningless, Reason: "memory.high is not set, which a kubelet does only for the alpha feature MemoryQoS"},
	{Name: "memoryReservationPolicy", Treatment: Refused, Reason: "no memory would be reserved for pods", Granted: []string{`"None"`}},
	{Name: "registerNode", Treatment: Refused, Reason: "the agent registers its Node", Granted: []string{"true"}},
	{Name: "imageServiceEndpoint", Treatment: Refused, Reason: "images are pulled through containerRuntimeEndpoint"},
}

// unheeded returns a warning for each meaningless field that is set, and an error that names the first refused field.
func unheeded(c *kubelet.KubeletConfiguration) (warnings []string, err error) {
	eachField(reflect.ValueOf(*c), "", func(name string, value reflect.Value) {
		f := fieldOf(name)
		if f.Treatment == Honoured || !isSet(value) || slices.Contains(f.Granted, asJSON(value)) {
			return
		}
		if f.Treatment == Refused {
			if err == nil {
				err = fmt.Errorf("%s is set: %s", name, f.Reason)
			}
			return
		}
		warnings = append(warnings, name+" is set and changes nothing: "+f.Reason)
	})
	slices.Sort(warnings)
	return warnings, err
}

// eachField calls f for each field, and for the fields of structs of the same package in place of these.
func eachField(v reflect.Value, prefix string, f func(name string, value reflect.Value)) {
	for field, value := range v.Fields() {
		if field.Anonymous {
			f("kind", value.FieldByName("Kind"))
			f("apiVersion", value.FieldByName("APIVersion"))
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || inner.PkgPath() != v.Type().PkgPath() {
			f(prefix+name, value)
			continue
		}
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				value = reflect.New(inner)
			}
			value = value.Elem()
		}
		eachField(value, prefix+name+".", f)
	}
}

// isSet reports whether a field is set. A kubelet treats the zero value of a field without a pointer as not set.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() > 0
	case reflect.Struct: // such as logging, in which kubeadm writes zeros that differ from Go's zero value
		return asJSON(v) != asJSON(reflect.Zero(v.Type()))
	}
	return !v.IsZero()
}

func asJSON(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return ""
	}
	return string(text)
}
