package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
)

// identity has the kubelet's flags that identify and describe the node.
type identity struct {
	// configDir is the directory of the configuration's drop-ins.
	configDir string
	// endpoint, providerID and taints replace the configuration's fields if they are set.
	endpoint, providerID string
	taints               []v1.Taint
	// labels are the labels with which the Node is registered.
	labels map[string]string
	// credentialConfig is the configuration file of credential providers, and credentialDir their plugins' directory.
	credentialConfig, credentialDir string
	// externalCloud means that a cloud controller manager completes the Node.
	externalCloud bool
}

// define adds the flags to a set.
func (i *identity) define(flags *flag.FlagSet) {
	flags.StringVar(&i.configDir, "config-dir", "", "`folder` of drop-ins (*.conf) whose fields replace those of --config, in the order of their paths (default none)")
	flags.StringVar(&i.endpoint, "container-runtime-endpoint", "", "`endpoint` of the runtime, in place of containerRuntimeEndpoint of --config")
	flags.StringVar(&i.providerID, "provider-id", "", "`name` of the machine for its cloud, in place of providerID of --config")
	flags.Func("node-labels", "`labels` of a Node that is registered: key=value, with a comma between them", i.setLabels)
	flags.Func("register-with-taints", "`taints` of a Node that is registered: key=value:effect, with a comma between them; in place of registerWithTaints of --config", i.setTaints)
	flags.Func("cloud-provider", "`external` if a cloud controller manager completes the Node, or \"\" (default \"\")", i.setCloud)
	flags.StringVar(&i.credentialConfig, "image-credential-provider-config", "", "`file`, or folder of files, with a CredentialProviderConfig (kubelet.config.k8s.io/v1)")
	flags.StringVar(&i.credentialDir, "image-credential-provider-bin-dir", "", "`folder` of the programs that --image-credential-provider-config names")
	flags.String("pod-infra-container-image", "", "`image`, accepted because kubeadm sets it, and not used: the runtime chooses the image of sandboxes")
}

// sources returns the configuration's sources.
func (o *options) sources() config.Sources {
	return config.Sources{File: o.config, DropIns: o.configDir, Flags: func(c *kubelet.KubeletConfiguration) {
		if o.endpoint != "" {
			c.ContainerRuntimeEndpoint = o.endpoint
		}
		if o.providerID != "" {
			c.ProviderID = o.providerID
		}
		if o.taints != nil {
			c.RegisterWithTaints = o.taints
		}
	}}
}

func (i *identity) setCloud(name string) error {
	if name != "" && name != "external" {
		return fmt.Errorf("%q is not external: cloud providers are no longer built in", name)
	}
	i.externalCloud = name == "external"
	return nil
}

// setLabels rejects labels that a kubelet rejects: a node may set only some labels in Kubernetes' namespaces, and the
// admission plugin NodeRestriction rejects the others.
func (i *identity) setLabels(text string) error {
	i.labels = map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not key=value", part)
		}
		i.labels[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(i.labels)) {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(i.labels[key])); len(problems) > 0 {
			return fmt.Errorf("%s=%s: %s", key, i.labels[key], strings.Join(problems, "; "))
		}
		if !mayLabelItself(key) {
			return fmt.Errorf("%s: a node may not give itself this label of Kubernetes", key)
		}
	}
	return nil
}

// ownLabels are the labels in the namespaces of Kubernetes that a node may set, besides the labels of
// kubelet.kubernetes.io and node.kubernetes.io.
var ownLabels = []string{
	v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion,
	v1.LabelInstanceType, v1.LabelInstanceTypeStable, v1.LabelOSStable, v1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

func mayLabelItself(key string) bool {
	namespace, _, _ := strings.Cut(key, "/")
	in := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
	if !strings.Contains(key, "/") || !in("kubernetes.io") && !in("k8s.io") {
		return true
	}
	return in("kubelet.kubernetes.io") || in("node.kubernetes.io") || slices.Contains(ownLabels, key)
}

func (i *identity) setTaints(text string) error {
	i.taints = []v1.Taint{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		taint, err := parseTaint(part)
		if err != nil {
			return fmt.Errorf("%q: %w", part, err)
		}
		if slices.ContainsFunc(i.taints, func(t v1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect }) {
			return fmt.Errorf("%q: two taints have this key and effect", part)
		}
		i.taints = append(i.taints, taint)
	}
	return nil
}

// parseTaint parses key=value:effect or key:effect.
func parseTaint(text string) (t v1.Taint, err error) {
	named, effect, ok := strings.Cut(text, ":")
	if !ok {
		return t, errors.New("want key=value:effect")
	}
	t.Key, t.Value, _ = strings.Cut(named, "=")
	t.Effect = v1.TaintEffect(effect)
	switch t.Effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	default:
		return t, fmt.Errorf("the effect is %q, want NoSchedule, PreferNoSchedule or NoExecute", effect)
	}
	if problems := slices.Concat(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)); len(problems) > 0 {
		return t, errors.New(strings.Join(problems, "; "))
	}
	return t, nil
}
