package config

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

const hardeningHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"

func TestProtectionIsHeededOrRefused(t *testing.T) {
	for text, want := range map[string]string{
		"tlsMinVersion: VersionTLS13\n":                            "",
		"tlsMinVersion: VersionTLS11\n":                            "tlsMinVersion",
		"tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]": "",
		"tlsCipherSuites: [TLS_NULL]":                              "tlsCipherSuites",
		"tlsCurvePreferences: [29, 4588]":                          "",
		"tlsCurvePreferences: [1]":                                 "tlsCurvePreferences",
		"streamingConnectionIdleTimeout: -1s":                      "streamingConnectionIdleTimeout",
		"streamingConnectionIdleTimeout: 5m":                       "",
		"enableDebuggingHandlers: false":                           "",
		"protectKernelDefaults: true":                              "",
		"maxOpenFiles: -1":                                         "maxOpenFiles",
		"podsPerCore: -1":                                          "podsPerCore",
		"podsPerCore: 10":                                          "",
		"oomScoreAdj: -1001":                                       "oomScoreAdj",
		"oomScoreAdj: -999":                                        "",
		"eventRecordQPS: -1":                                       "eventRecordQPS",
		"registryPullQPS: -1":                                      "registryPullQPS",
		"registryBurst: -1":                                        "registryPullQPS",
		"registryPullQPS: 0":                                       "",
		"defaultPodSysctls: {net.ipv4.ip_forward: \"0\"}":          "defaultPodSysctls",
		"defaultPodSysctls: {}":                                    "",
		"qosReserved: {memory: 50%}":                               "qosReserved",
		"podPidsLimit: 100\ncgroupsPerQOS: false":                  "podPidsLimit",
		"podPidsLimit: -1\ncgroupsPerQOS: false":                   "",
		"enforceNodeAllocatable: [pods]\ncgroupsPerQOS: false":     "enforceNodeAllocatable",
		"enforceNodeAllocatable: [pods, kube-reserved]":            "enforceNodeAllocatable",
		"enforceNodeAllocatable: [pods, none-compressible]":        "enforceNodeAllocatable",
		"enforceNodeAllocatable: [everything]":                     "enforceNodeAllocatable",
		"enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /kube\nkubeReserved: {pid: \"0\", ephemeral-storage: 1Gi}": "enforceNodeAllocatable",
		"enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /kube\nkubeReserved: {memory: 1Gi}":                        "",
		"enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /kube\ncgroupsPerQOS: false":                               "enforceNodeAllocatable",
		"enforceNodeAllocatable: [system-reserved, system-reserved-compressible]\nsystemReservedCgroup: /system":                 "enforceNodeAllocatable",
		"enforceNodeAllocatable: [none]\ncgroupsPerQOS: false":                                                                   "",
	} {
		_, warnings, err := parse([]byte(hardeningHead+text), nil)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) || len(warnings) > 0 {
			t.Errorf("%q: warnings %q, error %v, want an error of %q", text, warnings, err, want)
		}
	}
}

// A compressible reservation limits only the CPU.
func TestReservations(t *testing.T) {
	c, warnings, err := parse([]byte(hardeningHead+`enforceNodeAllocatable: [pods, system-reserved-compressible, kube-reserved]
systemReservedCgroup: /system
systemReserved: {cpu: 500m, memory: 1Gi}
kubeReservedCgroup: /kube
kubeReserved: {cpu: "1", memory: 2Gi, pid: "100"}
`), nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	got, err := Reservations(c)
	want := []Reservation{
		{"/system", v1.ResourceList{"cpu": resource.MustParse("500m")}},
		{"/kube", v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("2Gi"), "pid": resource.MustParse("100")}},
	}
	if err != nil || !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestTLSRestrictions(t *testing.T) {
	c, _, err := parse([]byte(hardeningHead+"tlsMinVersion: VersionTLS13\ntlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\ntlsCurvePreferences: [29]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := TLS(c)
	if err != nil || got.MinVersion != tls.VersionTLS13 || !slices.Equal(got.CipherSuites, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}) || !slices.Equal(got.CurvePreferences, []tls.CurveID{tls.X25519}) {
		t.Errorf("%x %x %v, %v", got.MinVersion, got.CipherSuites, got.CurvePreferences, err)
	}
}

// Exactly those lists of cipher suites are rejected with which net/http fails to start a server.
func TestCipherSuitesThatHTTP2Requires(t *testing.T) {
	for text, suites := range map[string][]uint16{
		"[]": nil,
		"[TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]":                                        {tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
		"[TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]": {tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
		"[TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]":                                      {tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		"[TLS_AES_128_GCM_SHA256]":                                                       {tls.TLS_AES_128_GCM_SHA256},
		"[TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]\ntlsMinVersion: VersionTLS13":           {tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
		"[TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]\ntlsMinVersion: VersionTLS12":           {tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
	} {
		version := uint16(tls.VersionTLS12)
		if strings.HasSuffix(text, "TLS13") {
			version = tls.VersionTLS13
		}
		served := serveTLS(t, &tls.Config{MinVersion: version, CipherSuites: suites})
		_, _, err := parse([]byte(hardeningHead+"tlsCipherSuites: "+text), nil)
		if (err == nil) != served || err != nil && !strings.Contains(err.Error(), "tlsCipherSuites has no suite that HTTP/2 requires") {
			t.Errorf("%s: error %v, and net/http serves it: %t", text, err, served)
		}
	}
}

// serveTLS reports whether net/http accepts the configuration.
func serveTLS(t *testing.T, c *tls.Config) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // Serve then returns immediately
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no certificate") }
	err = (&http.Server{TLSConfig: c}).ServeTLS(l, "", "")
	return !strings.Contains(err.Error(), "http2: TLSConfig.CipherSuites")
}

func TestMachineIsChecked(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := func(change func(fstest.MapFS)) fstest.MapFS {
		m := fstest.MapFS{"proc/swaps": file("Filename Type Size Used Priority\n"), "sys/fs/cgroup/cgroup.controllers": file("cpu memory")}
		for name, value := range kernelDefaults {
			m["proc/sys/"+name] = file(value + "\n")
		}
		change(m)
		return m
	}
	good := machine(func(fstest.MapFS) {})
	swap := machine(func(m fstest.MapFS) {
		m["proc/swaps"] = file("Filename Type Size Used Priority\n/dev/sda2 partition 1048572 0 -2\n")
	})
	limits := machine(func(m fstest.MapFS) {
		m["proc/swaps"], m["sys/fs/cgroup/system.slice/memory.swap.max"] = swap["proc/swaps"], file("max\n")
	})
	old := machine(func(m fstest.MapFS) { delete(m, "sys/fs/cgroup/cgroup.controllers") })
	overcommit := machine(func(m fstest.MapFS) { m["proc/sys/vm/overcommit_memory"] = file("0\n") })
	for _, tt := range []struct {
		text    string
		machine fstest.MapFS
		want    string
	}{
		{"protectKernelDefaults: true\nfailCgroupV1: true", good, ""},
		{"", swap, "failSwapOn"},
		{"failSwapOn: false", swap, ""},
		{"failSwapOn: false\nmemorySwap: {swapBehavior: NoSwap}", swap, "memorySwap.swapBehavior"},
		{"failSwapOn: false\nmemorySwap: {swapBehavior: LimitedSwap}", swap, "memorySwap.swapBehavior"},
		{"failSwapOn: false\nmemorySwap: {swapBehavior: NoSwap}", limits, ""},
		{"failSwapOn: false\nmemorySwap: {swapBehavior: LimitedSwap}", limits, ""},
		{"memorySwap: {swapBehavior: UnlimitedSwap}", good, "memorySwap.swapBehavior is \"UnlimitedSwap\""},
		{"failSwapOn: true\nmemorySwap: {swapBehavior: NoSwap}", good, ""},
		{"protectKernelDefaults: true", overcommit, "protectKernelDefaults: the sysctl vm.overcommit_memory"},
		{"protectKernelDefaults: true", fstest.MapFS{}, "protectKernelDefaults"},
		{"", overcommit, ""},
		{"failCgroupV1: true", old, "failCgroupV1"},
		{"", old, ""},
		{"", fstest.MapFS{}, ""},
	} {
		c, _, err := parse([]byte(hardeningHead+tt.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckMachine(c, tt.machine); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want an error of %q", tt.text, err, tt.want)
		}
	}
}

// endlessFiles is a machine whose files have no end.
type endlessFiles struct{}

func (endlessFiles) Open(name string) (fs.File, error) {
	file, err := fstest.MapFS{name: {}}.Open(name)
	return endlessFile{file}, err
}

type endlessFile struct{ fs.File }

func (endlessFile) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '1'
	}
	return len(b), nil
}

func TestFilesOfTheMachineAreBounded(t *testing.T) {
	err := CheckMachine(&kubelet.KubeletConfiguration{ProtectKernelDefaults: true}, endlessFiles{})
	if err == nil || !strings.Contains(err.Error(), "protectKernelDefaults") {
		t.Errorf("%.100v", err)
	}
}
