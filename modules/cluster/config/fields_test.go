package config_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var rewrite = flag.Bool("rewrite", false, "write FIELDS.md anew")

// leaves returns the JSON names of all fields. It finds them in another way than the table does.
func leaves(t reflect.Type, prefix string) (names []string) {
	for field := range t.Fields() {
		name := prefix + strings.Split(field.Tag.Get("json"), ",")[0]
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case inner == reflect.TypeFor[metav1.TypeMeta]():
			names = append(names, "kind", "apiVersion")
		case inner.Kind() == reflect.Struct && strings.HasSuffix(inner.PkgPath(), "/kubelet/config/v1beta1"):
			names = append(names, leaves(inner, name+".")...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// Each field of the Go types has a row, and no row names another field.
func TestTableHasAllFields(t *testing.T) {
	want := leaves(reflect.TypeFor[kubelet.KubeletConfiguration](), "")
	var got []string
	for _, f := range config.Fields() {
		got = append(got, f.Name)
		if f.Reason == "the node does not know the field" {
			t.Errorf("%s has no row in fields.go", f.Name)
		}
		if (f.Treatment == config.Honoured) != (f.Reason == "") {
			t.Errorf("%s is %s, and the reason is %q", f.Name, f.Treatment, f.Reason)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
	for _, name := range config.RowNames() {
		if !slices.Contains(want, name) {
			t.Errorf("fields.go has a row for %s, which KubeletConfiguration does not have", name)
		}
	}
	if rows := config.RowNames(); len(rows) != len(want) {
		t.Errorf("fields.go has %d rows for %d fields", len(rows), len(want))
	}
}

// harmless are the meaningless fields. A field is in this list only if the node protects itself at least as well without
// it.
var harmless = strings.Fields(`
	configMapAndSecretChangeDetectionStrategy containerLogMaxWorkers containerLogMonitorInterval contentType cpuManagerReconcilePeriod
	enableContentionProfiling enableDebugFlagsHandler enableProfilingHandler enableSystemLogQuery featureGates
	fileCheckFrequency hairpinMode httpCheckFrequency iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification
	kubeletCgroups logging makeIPTablesUtilChains memoryThrottlingFactor podCIDR runtimeRequestTimeout showHiddenMetricsForVersion
	syncFrequency volumePluginDir volumeStatsAggPeriod`)

func TestNoProtectionIsMeaningless(t *testing.T) {
	for _, f := range config.Fields() {
		if meaningless := f.Treatment == config.Meaningless; meaningless != slices.Contains(harmless, f.Name) {
			t.Errorf("%s is %s", f.Name, f.Treatment)
		}
	}
}

// Each refused field prevents the node's start, each meaningless field gives a warning, and granted values give
// neither an error nor a warning.
func TestTreatments(t *testing.T) {
	values := map[string]string{
		"staticPodURLHeader": "{a: [b]}", "qosReserved": "{memory: 50%}",
		"defaultPodSysctls": "{a: b}", "featureGates": "{A: true}", "logging": "{verbosity: 2}",
		"memoryThrottlingFactor": "0.5",
	}
	types := map[string]reflect.Type{}
	for field := range reflect.TypeFor[kubelet.KubeletConfiguration]().Fields() {
		types[strings.Split(field.Tag.Get("json"), ",")[0]] = field.Type
	}
	for _, f := range config.Fields() {
		if f.Treatment == config.Honoured {
			continue
		}
		value := values[f.Name]
		if value == "" {
			value = sample(types[f.Name], f.Granted)
		}
		text := f.Name + ": " + value
		_, warnings, err := configOf(t, text+"\n")
		switch {
		case f.Treatment == config.Refused && (err == nil || !strings.Contains(err.Error(), f.Name+" is set: "+f.Reason)):
			t.Errorf("%s: %v, want an error with the reason", text, err)
		case f.Treatment == config.Meaningless && (err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], f.Name+" is set")):
			t.Errorf("%s: warnings %q, %v, want one warning", text, warnings, err)
		}
		for _, granted := range f.Granted {
			text := f.Name + ": " + granted
			if _, warnings, err := configOf(t, text+"\n"); err != nil || len(warnings) > 0 {
				t.Errorf("%s: warnings %q, %v, want neither", text, warnings, err)
			}
		}
	}
}

// sample returns a value of a type that counts as set, and is not granted.
func sample(t reflect.Type, granted []string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return "1m"
	case t.Kind() == reflect.Bool:
		return fmt.Sprint(!slices.Contains(granted, "true"))
	case t.Kind() == reflect.Int32:
		return "1"
	}
	return "some"
}

// The configuration that kubeadm writes is accepted without a warning: a zero duration, an empty string and an empty
// object count as not set.
func TestKubeadmsConfiguration(t *testing.T) {
	const text = `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`
	if _, warnings, err := configOf(t, text); err != nil || len(warnings) > 0 {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

// FIELDS.md contains the table.
func TestPageOfFields(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# The fields of KubeletConfiguration v1beta1

What podsync-node does with each field of its ` + "`--config`" + ` file. A refused field keeps the node from starting, unless it has one of the values
in the last column, or is not set. A meaningless field changes nothing, and the node logs a warning. ` + "`go test ./config -rewrite`" + ` writes this page.

| field | treatment | reason | accepted values |
| --- | --- | --- | --- |
`)
	for _, f := range config.Fields() {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", f.Name, f.Treatment, f.Reason, strings.Join(f.Granted, ", "))
	}
	if *rewrite {
		must.Do(t, os.WriteFile("../FIELDS.md", []byte(page.String()), 0o644))
	}
	if have, err := os.ReadFile("../FIELDS.md"); err != nil || string(have) != page.String() {
		t.Errorf("FIELDS.md is not the table, %v: run go test ./config -rewrite", err)
	}
}
