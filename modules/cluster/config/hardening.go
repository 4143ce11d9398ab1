package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/userns"
)

// refuse returns an error that names the first field whose protection the node does not support.
func refuse(c *kubelet.KubeletConfiguration) error {
	pods := slices.Contains(c.EnforceNodeAllocatable, "pods")
	switch {
	case !*c.CgroupsPerQOS && *c.PodPidsLimit > 0:
		return errors.New("podPidsLimit is set, and cgroupsPerQOS is false: no pod would have the limit")
	case !*c.CgroupsPerQOS && pods:
		return errors.New(`enforceNodeAllocatable has "pods", and cgroupsPerQOS is false: pods would not be held to it`)
	case c.StreamingConnectionIdleTimeout.Duration < 0:
		return fmt.Errorf("streamingConnectionIdleTimeout is %v, want 0 or more", c.StreamingConnectionIdleTimeout.Duration)
	case c.MaxOpenFiles < 0:
		return fmt.Errorf("maxOpenFiles is %d, want 0 or more", c.MaxOpenFiles)
	case c.PodsPerCore < 0:
		return fmt.Errorf("podsPerCore is %d, want 0 or more", c.PodsPerCore)
	case c.OOMScoreAdj != nil && (*c.OOMScoreAdj < -1000 || *c.OOMScoreAdj > 1000):
		return fmt.Errorf("oomScoreAdj is %d, want -1000 to 1000", *c.OOMScoreAdj)
	case *c.EventRecordQPS < 0 || c.EventBurst < 0:
		return fmt.Errorf("eventRecordQPS is %d and eventBurst %d, want 0 or more", *c.EventRecordQPS, c.EventBurst)
	case *c.RegistryPullQPS < 0 || c.RegistryBurst < 0:
		return fmt.Errorf("registryPullQPS is %d and registryBurst %d, want 0 or more", *c.RegistryPullQPS, c.RegistryBurst)
	}
	if n := c.UserNamespaces; n != nil && n.IDsPerPod != nil && (*n.IDsPerPod < userns.Unit || *n.IDsPerPod%userns.Unit != 0 || *n.IDsPerPod > math.MaxUint32) {
		return fmt.Errorf("userNamespaces.idsPerPod is %d, want a multiple of %d below 2^32", *n.IDsPerPod, userns.Unit)
	}
	if _, err := Reservations(c); err != nil {
		return err
	}
	_, err := TLS(c)
	return err
}

// Reservation is a machine cgroup, and the resources to which enforceNodeAllocatable limits it.
type Reservation struct {
	// Cgroup is the value of systemReservedCgroup or kubeReservedCgroup.
	Cgroup string
	// Resources is systemReserved or kubeReserved, or the CPU of it for a compressible reservation.
	Resources v1.ResourceList
}

// Reservations returns the reservations that enforceNodeAllocatable names, besides that for pods.
func Reservations(c *kubelet.KubeletConfiguration) (list []Reservation, err error) {
	reserved := map[string]struct {
		field, cgroup string
		amounts       map[string]string
	}{
		"system-reserved": {"systemReserved", c.SystemReservedCgroup, c.SystemReserved},
		"kube-reserved":   {"kubeReserved", c.KubeReservedCgroup, c.KubeReserved},
	}
	for _, what := range c.EnforceNodeAllocatable {
		if what == "pods" || what == "none" || what == "" {
			continue
		}
		whole, compressible := strings.CutSuffix(what, "-compressible")
		r, ok := reserved[whole]
		switch {
		case !ok:
			return nil, fmt.Errorf("enforceNodeAllocatable has %q, want pods, none, system-reserved, system-reserved-compressible, kube-reserved or kube-reserved-compressible", what)
		case r.cgroup == "":
			return nil, fmt.Errorf("enforceNodeAllocatable has %q, and %sCgroup is empty: nothing would be held to the reservation", what, r.field)
		case !*c.CgroupsPerQOS:
			return nil, fmt.Errorf("enforceNodeAllocatable has %q, and cgroupsPerQOS is false: nothing would be held to the reservation", what)
		case compressible && slices.Contains(c.EnforceNodeAllocatable, whole):
			return nil, fmt.Errorf("enforceNodeAllocatable has %q and %q, want one of them", whole, what)
		}
		amounts, err := Amounts(r.field, r.amounts)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(amounts, func(name v1.ResourceName, q resource.Quantity) bool {
			return q.IsZero() || name != v1.ResourceCPU && (compressible || name != v1.ResourceMemory && name != "pid")
		})
		if len(amounts) == 0 {
			return nil, fmt.Errorf("enforceNodeAllocatable has %q, and %s has no amount that can be enforced", what, r.field)
		}
		list = append(list, Reservation{Cgroup: r.cgroup, Resources: amounts})
	}
	return list, nil
}

// TLS returns the TLS restrictions of the node's server, from the kubelet's tls* fields.
func TLS(c *kubelet.KubeletConfiguration) (*tls.Config, error) {
	restrictions := &tls.Config{MinVersion: tls.VersionTLS12}
	switch c.TLSMinVersion {
	case "", "VersionTLS12":
	case "VersionTLS13":
		restrictions.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("tlsMinVersion is %q, want %q or %q", c.TLSMinVersion, "VersionTLS12", "VersionTLS13")
	}
	known := map[string]uint16{}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		known[s.Name] = s.ID
	}
	for _, name := range c.TLSCipherSuites {
		id, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("tlsCipherSuites has %q, which crypto/tls does not have", name)
		}
		restrictions.CipherSuites = append(restrictions.CipherSuites, id)
	}
	if suites := restrictions.CipherSuites; len(suites) > 0 && restrictions.MinVersion < tls.VersionTLS13 && !slices.ContainsFunc(suites, isOfHTTP2) {
		return nil, errors.New("tlsCipherSuites has no suite that HTTP/2 requires: add TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, or set tlsMinVersion to VersionTLS13")
	}
	for _, id := range c.TLSCurvePreferences {
		curve := tls.CurveID(id)
		if id <= 0 || id > 0xffff || !slices.Contains(curves, curve) {
			return nil, fmt.Errorf("tlsCurvePreferences has %d, which crypto/tls does not have", id)
		}
		restrictions.CurvePreferences = append(restrictions.CurvePreferences, curve)
	}
	return restrictions, nil
}

// isOfHTTP2 reports whether a server with the cipher suite can serve HTTP/2 over TLS 1.2. Without
// one of these suites net/http fails to start the server, and so does a kubelet.
func isOfHTTP2(suite uint16) bool {
	return suite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 || suite == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
}

// curves are the key exchanges that crypto/tls supports.
var curves = []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024}

// kernelDefaults are the settings of the kernel that a kubelet expects, by their files below
// /proc/sys.
var kernelDefaults = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
	"kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// CheckMachine returns an error that names the field if the machine does not meet a requirement:
// protectKernelDefaults, failSwapOn, memorySwap or failCgroupV1. machine is the machine's root file
// system.
func CheckMachine(c *kubelet.KubeletConfiguration, machine fs.FS) error {
	if c.ProtectKernelDefaults {
		for _, name := range slices.Sorted(maps.Keys(kernelDefaults)) {
			value, err := readSmall(machine, "proc/sys/"+name)
			if err != nil {
				return fmt.Errorf("protectKernelDefaults: %w", err)
			}
			if value = strings.TrimSpace(value); value != kernelDefaults[name] {
				return fmt.Errorf("protectKernelDefaults: the sysctl %s is %q, want %s", strings.ReplaceAll(name, "/", "."), value, kernelDefaults[name])
			}
		}
	}
	if err := checkSwap(c, machine); err != nil {
		return err
	}
	if c.FailCgroupV1 != nil && *c.FailCgroupV1 {
		if _, err := fs.Stat(machine, "sys/fs/cgroup/cgroup.controllers"); err != nil {
			return errors.New("failCgroupV1: the machine has no cgroup v2 at /sys/fs/cgroup")
		}
	}
	return nil
}

// maxSmall is the maximum size of a file of the kernel that is read, in bytes.
const maxSmall = 64 << 10

func readSmall(machine fs.FS, path string) (string, error) {
	file, err := machine.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSmall))
	return string(text), err
}
