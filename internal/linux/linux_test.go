package linux_test

import (
	"math"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/linux"
	"github.com/podsync/podsync/internal/podresources"
)

func cpu(milli int64) *resource.Quantity { return resource.NewMilliQuantity(milli, resource.DecimalSI) }

func TestShares(t *testing.T) {
	for name, tc := range map[string]struct {
		request, limit *resource.Quantity
		want           int64
	}{
		"nothing":                      {nil, nil, 2},
		"zero":                         {cpu(0), nil, 2},
		"zero is not the limit":        {cpu(0), cpu(1000), 2},
		"no request is the limit":      {nil, cpu(1000), 1024},
		"request":                      {cpu(500), cpu(1000), 512},
		"rounded down":                 {cpu(100), nil, 102},
		"below the least":              {cpu(1), nil, 2},
		"just above the least":         {cpu(3), nil, 3},
		"just below the most":          {cpu(255999), nil, 262142},
		"the most":                     {cpu(256000), nil, 262144},
		"more than there is":           {cpu(1 << 40), nil, 262144},
		"more than an int64 holds":     {cpu(math.MaxInt64), nil, 262144},
		"negative, which is no amount": {cpu(-5), nil, 2},
	} {
		if got := linux.Resources(linux.Amounts{CPURequest: tc.request, CPULimit: tc.limit}, podresources.CPUBandwidth{}).CpuShares; got != tc.want {
			t.Errorf("%s: %d shares, want %d", name, got, tc.want)
		}
	}
}

func TestQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		limit             *resource.Quantity
		cpu               podresources.CPUBandwidth
		wantQuota, period int64
	}{
		"no limit":                {nil, podresources.CPUBandwidth{}, 0, 100000},
		"no limit, and off":       {nil, podresources.CPUBandwidth{Off: true}, 0, 0},
		"off":                     {cpu(500), podresources.CPUBandwidth{Off: true}, 0, 0},
		"half a CPU":              {cpu(500), podresources.CPUBandwidth{}, 50000, 100000},
		"the least":               {cpu(10), podresources.CPUBandwidth{}, 1000, 100000},
		"below the least":         {cpu(1), podresources.CPUBandwidth{}, 1000, 100000},
		"another period":          {cpu(500), podresources.CPUBandwidth{Period: 20 * time.Millisecond}, 10000, 20000},
		"a period the kernel has": {cpu(2000), podresources.CPUBandwidth{Period: time.Nanosecond}, 2000, 1000},
		"a negative period":       {cpu(500), podresources.CPUBandwidth{Period: -1}, 50000, 100000},
	} {
		got := linux.Resources(linux.Amounts{CPULimit: tc.limit}, tc.cpu)
		if got.CpuQuota != tc.wantQuota || got.CpuPeriod != tc.period {
			t.Errorf("%s: quota %d of %d, want %d of %d", name, got.CpuQuota, got.CpuPeriod, tc.wantQuota, tc.period)
		}
	}
	huge := linux.Resources(linux.Amounts{CPULimit: cpu(math.MaxInt64)}, podresources.CPUBandwidth{})
	if huge.CpuQuota < 1<<40 {
		t.Errorf("quota %d for a limit that exceeds an int64, want one that limits nothing", huge.CpuQuota)
	}
}

func TestProcessNamespace(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		spec v1.PodSpec
		want runtimeapi.NamespaceMode
	}{
		"one's own":         {v1.PodSpec{}, runtimeapi.NamespaceMode_CONTAINER},
		"not shared":        {v1.PodSpec{ShareProcessNamespace: &no}, runtimeapi.NamespaceMode_CONTAINER},
		"shared":            {v1.PodSpec{ShareProcessNamespace: &yes}, runtimeapi.NamespaceMode_POD},
		"the node's":        {v1.PodSpec{HostPID: true}, runtimeapi.NamespaceMode_NODE},
		"the node's before": {v1.PodSpec{HostPID: true, ShareProcessNamespace: &yes}, runtimeapi.NamespaceMode_NODE},
	} {
		if got, err := linux.Namespaces(&tc.spec, nil); err != nil || got.Pid != tc.want {
			t.Errorf("%s: %v, error %v; want %v", name, got.GetPid(), err, tc.want)
		}
	}
}

func TestGroups(t *testing.T) {
	owner := int64(1)
	sc := &v1.PodSecurityContext{FSGroup: &owner, SupplementalGroups: make([]int64, 1, 10)}
	if got := linux.Groups(sc, []int64{9}); !slices.Equal(got, []int64{1, 0, 9}) {
		t.Errorf("groups %v, want fsGroup, supplementalGroups, extra", got)
	}
	if got := linux.Groups(nil, []int64{9}); !slices.Equal(got, []int64{9}) {
		t.Errorf("groups %v, want the extra ones without a security context", got)
	}
	if got := sc.SupplementalGroups[:2][1]; got != 0 {
		t.Errorf("the pod's slice was appended to: %d", got)
	}
}
