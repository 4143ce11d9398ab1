package podspec_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/syncpod/podspec"
)

// fields are the fields an error is about, each once.
func fields(t *testing.T, err error) []string {
	t.Helper()
	var list []string
	var all utilerrors.Aggregate
	if err != nil && !errors.As(err, &all) {
		t.Fatalf("%T does not join errors", err)
	}
	if all == nil {
		return nil
	}
	for _, e := range all.Errors() {
		var at *field.Error
		if !errors.As(e, &at) {
			t.Fatalf("%v names no field", e)
		}
		list = append(list, at.Field)
	}
	return slices.Compact(list)
}

func TestValidateAcceptsAGoodPod(t *testing.T) {
	if err := podspec.Validate(good(t)); err != nil {
		t.Error(err)
	}
	if err := podspec.Validate(nil); err == nil {
		t.Error("nil is a pod")
	}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func TestValidate(t *testing.T) {
	type pod = v1.Pod
	type ctr = v1.Container
	web := func(change func(*ctr)) func(*pod) { return func(p *pod) { change(&p.Spec.Containers[0]) } }
	sidecar := func(change func(*ctr)) func(*pod) { return func(p *pod) { change(&p.Spec.InitContainers[0]) } }
	debug := func(change func(*v1.EphemeralContainerCommon)) func(*pod) {
		return func(p *pod) { change(&p.Spec.EphemeralContainers[0].EphemeralContainerCommon) }
	}
	mount := func(m v1.VolumeMount) func(*pod) {
		return web(func(c *ctr) { c.VolumeMounts = []v1.VolumeMount{m} })
	}
	env := func(e v1.EnvVar) func(*pod) { return web(func(c *ctr) { c.Env = []v1.EnvVar{e} }) }
	envFrom := func(s v1.EnvVarSource) func(*pod) { return env(v1.EnvVar{Name: "A", ValueFrom: &s}) }
	volume := func(s v1.VolumeSource) func(*pod) {
		return func(p *pod) { p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "x", VolumeSource: s}) }
	}
	spec := func(change func(*v1.PodSpec)) func(*pod) { return func(p *pod) { change(&p.Spec) } }
	sysctl := func(names ...string) func(*pod) {
		return spec(func(s *v1.PodSpec) {
			for _, n := range names {
				s.SecurityContext.Sysctls = append(s.SecurityContext.Sysctls, v1.Sysctl{Name: n})
			}
		})
	}
	yes, no := true, false
	negative, big := int64(-1), int32(0o1000)
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	bidirectional, recursive := v1.MountPropagationBidirectional, v1.RecursiveReadOnlyEnabled
	const c0, x = "spec.containers[0].", "spec.volumes[7]."

	for name, tc := range map[string]struct {
		change func(*pod)
		want   string // fields, a space between them
	}{
		"no name":           {func(p *pod) { p.Name = "" }, "metadata.name"},
		"name":              {func(p *pod) { p.Name = "a/b" }, "metadata.name"},
		"namespace":         {func(p *pod) { p.Namespace = "a.b" }, "metadata.namespace"},
		"uid":               {func(p *pod) { p.UID = "../a" }, "metadata.uid"},
		"uid as a label":    {func(p *pod) { p.UID = types.UID(strings.Repeat("a", 64)) }, "metadata.uid"},
		"label's value":     {func(p *pod) { p.Labels = map[string]string{"a": "b c"} }, "metadata.labels[a]"},
		"labels":            {func(p *pod) { p.Labels = map[string]string{"b!": "", "a!": ""} }, "metadata.labels"},
		"annotations":       {func(p *pod) { p.Annotations["a b"] = "" }, "metadata.annotations"},
		"annotations' size": {func(p *pod) { p.Annotations["a"] = strings.Repeat("s3cret", 50000) }, "metadata.annotations"},
		"deletion grace":    {func(p *pod) { p.DeletionGracePeriodSeconds = &negative }, "metadata.deletionGracePeriodSeconds"},

		"no containers": {spec(func(s *v1.PodSpec) { s.Containers = nil }), "spec.containers"},
		"restartPolicy": {spec(func(s *v1.PodSpec) { s.RestartPolicy = "Sometimes" }), "spec.restartPolicy"},
		"no defaults":   {spec(func(s *v1.PodSpec) { s.RestartPolicy, s.DNSPolicy, s.EnableServiceLinks = "", "", nil }), "spec.restartPolicy spec.enableServiceLinks spec.dnsPolicy"},
		"grace":         {spec(func(s *v1.PodSpec) { s.TerminationGracePeriodSeconds = &negative }), "spec.terminationGracePeriodSeconds"},
		"active":        {spec(func(s *v1.PodSpec) { s.ActiveDeadlineSeconds = new(int64) }), "spec.activeDeadlineSeconds"},
		"dnsPolicy":     {spec(func(s *v1.PodSpec) { s.DNSPolicy = "Some" }), "spec.dnsPolicy"},
		"None":          {spec(func(s *v1.PodSpec) { s.DNSPolicy = v1.DNSNone }), "spec.dnsConfig.nameservers"},
		"nameservers": {spec(func(s *v1.PodSpec) {
			s.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "a", "::1", "1.1.1.2"}}
		}), "spec.dnsConfig.nameservers spec.dnsConfig.nameservers[1]"},
		"searches": {spec(func(s *v1.PodSpec) {
			s.DNSConfig = &v1.PodDNSConfig{Searches: []string{".", "a.b.", "_a.b", "a b", ""}}
		}), "spec.dnsConfig.searches[3] spec.dnsConfig.searches[4]"},
		"many searches": {spec(func(s *v1.PodSpec) { s.DNSConfig = &v1.PodDNSConfig{Searches: slices.Repeat([]string{"a"}, 33)} }), "spec.dnsConfig.searches"},
		"long searches": {spec(func(s *v1.PodSpec) {
			s.DNSConfig = &v1.PodDNSConfig{Searches: slices.Repeat([]string{strings.Repeat("a.", 99) + "a"}, 11)}
		}), "spec.dnsConfig.searches"},
		"options":  {spec(func(s *v1.PodSpec) { s.DNSConfig = &v1.PodDNSConfig{Options: []v1.PodDNSConfigOption{{}}} }), "spec.dnsConfig.options[0].name"},
		"hostname": {spec(func(s *v1.PodSpec) { s.Hostname, s.Subdomain = "a.b", "A" }), "spec.hostname spec.subdomain"},
		"override": {spec(func(s *v1.PodSpec) { o := "a"; s.HostnameOverride = &o }), "spec.hostnameOverride"},
		"override FQDN": {spec(func(s *v1.PodSpec) {
			o := "a"
			s.HostNetwork, s.HostnameOverride, s.SetHostnameAsFQDN = false, &o, &yes
		}), "spec.hostnameOverride"},
		"long override":  {spec(func(s *v1.PodSpec) { o := strings.Repeat("a.", 32) + "a"; s.HostnameOverride = &o }), "spec.hostnameOverride"},
		"hostAliases":    {spec(func(s *v1.PodSpec) { s.HostAliases = []v1.HostAlias{{IP: "a", Hostnames: []string{"A"}}} }), "spec.hostAliases[0].ip spec.hostAliases[0].hostnames[0]"},
		"nodeName":       {spec(func(s *v1.PodSpec) { s.NodeName = "A b" }), "spec.nodeName"},
		"account":        {spec(func(s *v1.PodSpec) { s.ServiceAccountName = "A b" }), "spec.serviceAccountName"},
		"runtimeClass":   {spec(func(s *v1.PodSpec) { s.RuntimeClassName = new(string) }), "spec.runtimeClassName"},
		"readinessGates": {spec(func(s *v1.PodSpec) { s.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "a b"}} }), "spec.readinessGates[0].conditionType"},
		"overhead":       {spec(func(s *v1.PodSpec) { s.Overhead = v1.ResourceList{"cpu": quantity("-1")} }), "spec.overhead[cpu]"},
		"pod resources": {spec(func(s *v1.PodSpec) {
			s.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"ephemeral-storage": quantity("1")}}
		}), "spec.resources.limits"},
		"processes":   {spec(func(s *v1.PodSpec) { s.HostPID, s.ShareProcessNamespace = true, &yes }), "spec.shareProcessNamespace"},
		"hostUsers":   {spec(func(s *v1.PodSpec) { s.HostUsers = &no }), "spec.hostUsers"},
		"no security": {spec(func(s *v1.PodSpec) { s.SecurityContext = nil }), "spec.securityContext"},
		"IDs": {spec(func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: &negative, RunAsGroup: &negative, FSGroup: &negative, SupplementalGroups: []int64{1, -1}}
		}), "spec.securityContext.runAsUser spec.securityContext.runAsGroup spec.securityContext.fsGroup spec.securityContext.supplementalGroups[1]"},
		"profiles": {spec(func(s *v1.PodSpec) {
			up := "../a"
			s.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &up}
			s.SecurityContext.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}
		}), "spec.securityContext.seccompProfile.localhostProfile spec.securityContext.appArmorProfile.localhostProfile"},
		"needless profile": {spec(func(s *v1.PodSpec) {
			s.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined, LocalhostProfile: new(string)}
		}), "spec.securityContext.seccompProfile.localhostProfile"},
		"sysctls": {sysctl("kernel.shm_rmid_forced", "a..b", "", "kernel/shm_rmid_forced"),
			"spec.securityContext.sysctls[1].name spec.securityContext.sysctls[2].name spec.securityContext.sysctls[3].name"},
		"net sysctl":  {sysctl("net/core/somaxconn"), "spec.securityContext.sysctls[0].name"},
		"host sysctl": {func(p *pod) { p.Spec.HostIPC = true; sysctl("kernel.sem")(p) }, "spec.securityContext.sysctls[0].name"},

		"container name":    {web(func(c *ctr) { c.Name = "../a" }), c0 + "name"},
		"no container name": {web(func(c *ctr) { c.Name = "" }), c0 + "name"},
		"duplicate":         {web(func(c *ctr) { c.Name = "init" }), c0 + "name"},
		"duplicate debug":   {debug(func(c *v1.EphemeralContainerCommon) { c.Name = "web" }), "spec.ephemeralContainers[0].name"},
		"no image":          {web(func(c *ctr) { c.Image = "" }), c0 + "image"},
		"image":             {web(func(c *ctr) { c.Image = " a" }), c0 + "image"},
		"policies":          {web(func(c *ctr) { c.ImagePullPolicy, c.TerminationMessagePolicy = "a", "b" }), c0 + "imagePullPolicy " + c0 + "terminationMessagePolicy"},
		"message":           {web(func(c *ctr) { c.TerminationMessagePath = "" }), c0 + "terminationMessagePath"},
		"port": {web(func(c *ctr) {
			c.Ports[0] = v1.ContainerPort{Name: "a b", ContainerPort: 0, HostPort: 65536, HostIP: "a", Protocol: "X"}
		}),
			c0 + "ports[0].name " + c0 + "ports[0].containerPort " + c0 + "ports[0].hostPort " + c0 + "ports[0].protocol " + c0 + "ports[0].hostIP"},
		"port names": {web(func(c *ctr) { c.Ports[1].Name = "http" }), c0 + "ports[1].name"},
		"host ports": {web(func(c *ctr) { c.Ports[0] = v1.ContainerPort{ContainerPort: 9000, HostPort: 9000, Protocol: "TCP"} }), c0 + "ports[0].hostPort"},
		"env name":   {env(v1.EnvVar{Name: "A=B"}), c0 + "env[0].name"},
		"no env":     {env(v1.EnvVar{}), c0 + "env[0].name"},
		"valueFrom":  {env(v1.EnvVar{Name: "A", Value: "s3cret", ValueFrom: &v1.EnvVarSource{}}), c0 + "env[0].valueFrom"},
		"two sources": {envFrom(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}, ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}),
			c0 + "env[0].valueFrom"},
		"fieldRef": {envFrom(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.labels"}}),
			c0 + "env[0].valueFrom.fieldRef.apiVersion " + c0 + "env[0].valueFrom.fieldRef.fieldPath"},
		"label":        {envFrom(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['a b']"}}), c0 + "env[0].valueFrom.fieldRef.fieldPath"},
		"annotation":   {envFrom(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['Example.com/a']"}}), ""},
		"resource":     {envFrom(v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.gpu"}}), c0 + "env[0].valueFrom.resourceFieldRef.resource"},
		"configMapKey": {envFrom(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{Key: "a/b"}}), c0 + "env[0].valueFrom.configMapKeyRef.name " + c0 + "env[0].valueFrom.configMapKeyRef.key"},
		"secretKey":    {envFrom(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{Key: ".."}}), c0 + "env[0].valueFrom.secretKeyRef.name " + c0 + "env[0].valueFrom.secretKeyRef.key"},
		"fileKey": {envFrom(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "none", Key: "A", Path: "../a"}}),
			c0 + "env[0].valueFrom.fileKeyRef.volumeName " + c0 + "env[0].valueFrom.fileKeyRef.path"},
		"envFrom": {web(func(c *ctr) {
			c.EnvFrom = []v1.EnvFromSource{{Prefix: "a="}, {ConfigMapRef: &v1.ConfigMapEnvSource{}}, {SecretRef: &v1.SecretEnvSource{}}}
		}), c0 + "envFrom[0].prefix " + c0 + "envFrom[0] " + c0 + "envFrom[1].configMapRef.name " + c0 + "envFrom[2].secretRef.name"},

		"no volume":    {mount(v1.VolumeMount{Name: "none", MountPath: "/a"}), c0 + "volumeMounts[0].name"},
		"mountPath":    {mount(v1.VolumeMount{Name: "host", MountPath: "/a:b"}), c0 + "volumeMounts[0].mountPath"},
		"no mountPath": {mount(v1.VolumeMount{Name: "host"}), c0 + "volumeMounts[0].mountPath"},
		"mounts":       {web(func(c *ctr) { c.VolumeMounts = slices.Repeat([]v1.VolumeMount{{Name: "host", MountPath: "/a"}}, 2) }), c0 + "volumeMounts[1].mountPath"},
		"subPath":      {mount(v1.VolumeMount{Name: "host", MountPath: "/a", SubPath: "a/../../b"}), c0 + "volumeMounts[0].subPath"},
		"subPathExpr":  {mount(v1.VolumeMount{Name: "host", MountPath: "/a", SubPathExpr: "/$(A)"}), c0 + "volumeMounts[0].subPathExpr"},
		"two subPaths": {mount(v1.VolumeMount{Name: "host", MountPath: "/a", SubPath: "a", SubPathExpr: "a"}), c0 + "volumeMounts[0].subPathExpr"},
		"propagation":  {mount(v1.VolumeMount{Name: "host", MountPath: "/a", MountPropagation: &bidirectional}), c0 + "volumeMounts[0].mountPropagation"},
		"recursive":    {mount(v1.VolumeMount{Name: "host", MountPath: "/a", RecursiveReadOnly: &recursive}), c0 + "volumeMounts[0].recursiveReadOnly"},
		"devices": {web(func(c *ctr) {
			c.VolumeDevices = []v1.VolumeDevice{{Name: "none", DevicePath: "/dev/../a"}, {Name: "host"}}
		}), c0 + "volumeDevices[0].name " + c0 + "volumeDevices[0].devicePath " + c0 + "volumeDevices[1].devicePath"},
		"limits": {web(func(c *ctr) { c.Resources.Limits["memory"] = quantity("-1Mi") }), c0 + "resources.limits[memory] " + c0 + "resources.requests[memory]"},
		"limits that are requests": {web(func(c *ctr) {
			c.Resources.Limits["memory"], c.Resources.Requests["memory"] = quantity("-1Mi"), quantity("-1Mi")
			c.Resources.Limits["a b"], c.Resources.Requests["a b"] = quantity("1"), quantity("1")
		}), c0 + "resources.limits[a b] " + c0 + "resources.limits[memory]"},
		"over limit":         {web(func(c *ctr) { c.Resources.Requests["memory"] = quantity("1Gi") }), c0 + "resources.requests[memory]"},
		"huge pages":         {web(func(c *ctr) { c.Resources.Requests["hugepages-2Mi"] = quantity("2Mi") }), c0 + "resources.requests[hugepages-2Mi]"},
		"endless huge pages": {web(func(c *ctr) { c.Resources.Limits["hugepages-1e-266666600"] = quantity("0") }), c0 + "resources.limits[hugepages-1e-266666600]"},
		"extended": {web(func(c *ctr) {
			c.Resources = v1.ResourceRequirements{Limits: v1.ResourceList{"a.com/b": quantity("1500m")}, Requests: v1.ResourceList{"a.com/b": quantity("1")}}
		}), c0 + "resources.limits[a.com/b] " + c0 + "resources.requests[a.com/b]"},
		"resource name": {web(func(c *ctr) { c.Resources.Limits["a b"] = quantity("1") }), c0 + "resources.limits[a b]"},
		"security": {web(func(c *ctr) {
			c.SecurityContext = &v1.SecurityContext{RunAsUser: &negative, Privileged: &yes, AllowPrivilegeEscalation: &no, ProcMount: new(v1.ProcMountType)}
		}), c0 + "securityContext.runAsUser " + c0 + "securityContext.procMount " + c0 + "securityContext.allowPrivilegeEscalation"},
		"unmasked": {web(func(c *ctr) { c.SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)} }), c0 + "securityContext.procMount"},
		"unmasked with the node's users": {spec(func(s *v1.PodSpec) {
			s.HostUsers, s.Containers[0].SecurityContext = &yes, &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
		}), c0 + "securityContext.procMount"},
		"rules without policy": {web(func(c *ctr) {
			c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: "Restart", ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}
		}), c0 + "restartPolicy"},
		"rules": {web(func(c *ctr) {
			c.RestartPolicy = &never
			c.RestartPolicyRules = []v1.ContainerRestartRule{{Action: "Run"}, {Action: "Restart", ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "Or"}}}
		}), c0 + "restartPolicyRules[0].action " + c0 + "restartPolicyRules[0].exitCodes " + c0 + "restartPolicyRules[1].exitCodes.operator " + c0 + "restartPolicyRules[1].exitCodes.values"},
		"many rules": {web(func(c *ctr) {
			c.RestartPolicy = &never
			c.RestartPolicyRules = slices.Repeat([]v1.ContainerRestartRule{{Action: "Restart", ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}, 21)
		}), c0 + "restartPolicyRules"},
		"container policy": {web(func(c *ctr) { c.RestartPolicy = new(v1.ContainerRestartPolicy) }), c0 + "restartPolicy"},
		"own policy":       {web(func(c *ctr) { c.RestartPolicy = &always }), ""},

		"probe without":  {web(func(c *ctr) { c.LivenessProbe.HTTPGet = nil }), c0 + "livenessProbe"},
		"probe with two": {web(func(c *ctr) { c.LivenessProbe.Exec = &v1.ExecAction{} }), c0 + "livenessProbe " + c0 + "livenessProbe.exec.command"},
		"probe's counts": {web(func(c *ctr) { c.LivenessProbe.PeriodSeconds, c.LivenessProbe.InitialDelaySeconds = 0, -1 }),
			c0 + "livenessProbe.initialDelaySeconds " + c0 + "livenessProbe.periodSeconds"},
		"success": {web(func(c *ctr) { c.LivenessProbe.SuccessThreshold = 2 }), c0 + "livenessProbe.successThreshold"},
		"probe's grace": {web(func(c *ctr) {
			c.ReadinessProbe, c.LivenessProbe = c.LivenessProbe, nil
			c.ReadinessProbe.TerminationGracePeriodSeconds = new(int64(1))
		}), c0 + "readinessProbe.terminationGracePeriodSeconds"},
		"probe's host": {web(func(c *ctr) {
			c.LivenessProbe.HTTPGet = &v1.HTTPGetAction{HTTPHeaders: []v1.HTTPHeader{{Name: "a b", Value: "s3cret"}}}
		}), c0 + "livenessProbe.httpGet.path " + c0 + "livenessProbe.httpGet.port " + c0 + "livenessProbe.httpGet.scheme " + c0 + "livenessProbe.httpGet.httpHeaders[0].name"},
		"tcp probe": {web(func(c *ctr) {
			c.LivenessProbe.ProbeHandler = v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("")}}
		}), c0 + "livenessProbe.tcpSocket.port"},
		"grpc probe":     {web(func(c *ctr) { c.LivenessProbe.ProbeHandler = v1.ProbeHandler{GRPC: &v1.GRPCAction{}} }), c0 + "livenessProbe.grpc.port"},
		"init probe":     {sidecar(func(c *ctr) { c.RestartPolicy = nil }), "spec.initContainers[0].startupProbe"},
		"init hooks":     {sidecar(func(c *ctr) { c.RestartPolicy, c.StartupProbe, c.Lifecycle = nil, nil, &v1.Lifecycle{} }), "spec.initContainers[0].lifecycle"},
		"hook without":   {web(func(c *ctr) { c.Lifecycle.PostStart = &v1.LifecycleHandler{} }), c0 + "lifecycle.postStart"},
		"hook's command": {web(func(c *ctr) { c.Lifecycle.PreStop = &v1.LifecycleHandler{Exec: &v1.ExecAction{}} }), c0 + "lifecycle.preStop.exec.command"},
		"hook's sleep":   {web(func(c *ctr) { c.Lifecycle.PreStop = &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 31}} }), c0 + "lifecycle.preStop.sleep.seconds"},
		"debug with much": {debug(func(c *v1.EphemeralContainerCommon) { c.Lifecycle, c.RestartPolicy = &v1.Lifecycle{}, &never }),
			"spec.ephemeralContainers[0].lifecycle spec.ephemeralContainers[0].restartPolicy"},
		"debug's subPath": {debug(func(c *v1.EphemeralContainerCommon) {
			c.VolumeMounts = []v1.VolumeMount{{Name: "host", MountPath: "/a", SubPath: "a"}}
		}), "spec.ephemeralContainers[0].volumeMounts[0].subPath"},
		"debug's target": {spec(func(s *v1.PodSpec) { s.EphemeralContainers[0].TargetContainerName = "debug" }), "spec.ephemeralContainers[0].targetContainerName"},

		"volume name":      {spec(func(s *v1.PodSpec) { s.Volumes[1].Name = "a/b" }), "spec.volumes[1].name"},
		"duplicate volume": {spec(func(s *v1.PodSpec) { s.Volumes[1].Name = "secret" }), "spec.volumes[2].name"},
		"no source":        {volume(v1.VolumeSource{}), "spec.volumes[7]"},
		"sources":          {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}, HostPath: &v1.HostPathVolumeSource{Path: "/"}}), "spec.volumes[7]"},
		"hostPath":         {volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/a/..", Type: new(v1.HostPathType("X"))}}), x + "hostPath.path " + x + "hostPath.type"},
		"emptyDir":         {volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(quantity("-1"))}}), x + "emptyDir.sizeLimit"},
		"secret": {volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{DefaultMode: &big, Items: []v1.KeyToPath{{Path: "../a", Mode: &big}}}}),
			x + "secret.secretName " + x + "secret.defaultMode " + x + "secret.items[0].key " + x + "secret.items[0].path " + x + "secret.items[0].mode"},
		"configMap": {volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{Items: []v1.KeyToPath{{Key: "a", Path: "/a"}}}}), x + "configMap.name " + x + "configMap.items[0].path"},
		"downwardAPI": {volume(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: &big, Items: []v1.DownwardAPIVolumeFile{
			{Path: "a"}, {FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}, {Path: "b", ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}},
		}}}), x + "downwardAPI.defaultMode " + x + "downwardAPI.items[0] " + x + "downwardAPI.items[1].path " + x + "downwardAPI.items[1].fieldRef.fieldPath " + x + "downwardAPI.items[2].resourceFieldRef.containerName"},
		"projected": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: &big, Sources: []v1.VolumeProjection{
			{}, {Secret: &v1.SecretProjection{}}, {ConfigMap: &v1.ConfigMapProjection{}}, {ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "..", ExpirationSeconds: new(int64(1))}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "a"}}}},
		}}}), x + "projected.defaultMode " + x + "projected.sources[0] " + x + "projected.sources[1].secret.name " + x + "projected.sources[2].configMap.name " + x + "projected.sources[3].serviceAccountToken.path " +
			x + "projected.sources[3].serviceAccountToken.expirationSeconds " + x + "projected.sources[4].downwardAPI.items[0]"},
		"reserved paths": {volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "a"}, Items: []v1.KeyToPath{{Key: "a", Path: "..data"}, {Key: "a", Path: "a/..data"}}}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "..1/token", ExpirationSeconds: new(int64(3600))}},
		}}}), x + "projected.sources[0].configMap.items[0].path " + x + "projected.sources[1].serviceAccountToken.path"},
		"image volume": {volume(v1.VolumeSource{Image: &v1.ImageVolumeSource{}}), x + "image.reference " + x + "image.pullPolicy"},
		"claim":        {volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}), x + "persistentVolumeClaim.claimName"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := good(t)
			tc.change(pod)
			before := pod.DeepCopy()
			err := podspec.Validate(pod)
			if got := strings.Join(fields(t, err), " "); got != tc.want {
				t.Errorf("wrong are\n%s, want\n%s:\n%v", got, tc.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error contains a secret: %v", err)
			}
			if !reflect.DeepEqual(pod, before) {
				t.Error("the pod was changed")
			}
		})
	}
}

// A UID that is too long is not repeated.
func TestLongUIDIsNotRepeated(t *testing.T) {
	p := podspec.Default(&v1.Pod{})
	p.UID = types.UID(strings.Repeat("a", 5000))
	if err := podspec.Validate(p); err == nil || strings.Contains(err.Error(), "aaaa") || !strings.Contains(err.Error(), "metadata.uid: Too long") {
		t.Errorf("%v, want an error and no %q in it and %q in it", err, "aaaa", "metadata.uid: Too long")
	}
}

// The author of a manifest reads which fields are alternatives, and which of them are set.
func TestAlternativesAreNamed(t *testing.T) {
	for want, change := range map[string]func(*v1.Pod){
		"livenessProbe: Required value: must have one of exec, httpGet, tcpSocket, grpc":                     func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe.ProbeHandler = v1.ProbeHandler{} },
		"livenessProbe: Forbidden: must have only one of exec, httpGet":                                      func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe.Exec = &v1.ExecAction{} },
		"must have one of hostPath, emptyDir, gcePersistentDisk, awsElasticBlockStore, gitRepo, secret, ...": func(p *v1.Pod) { p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{} },
	} {
		p := good(t)
		change(p)
		if err := podspec.Validate(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
