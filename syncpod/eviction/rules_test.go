package eviction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func rulesOf(t *testing.T, p Policy) Rules {
	t.Helper()
	return must.Get(ParsePolicy(p))(t)
}

func TestPolicyDefaults(t *testing.T) {
	r := rulesOf(t, Policy{})
	want := "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%]"
	if got := fmt.Sprint(r.Thresholds); got != want || r.TransitionPeriod != 5*time.Minute || r.MaxPodGrace != time.Second || !r.StorageLimits {
		t.Errorf("%s, want %v, a transition period of %v, a grace period of %v and storage limits\n%+v", got, want, 5*time.Minute, time.Second, r)
	}
}

func TestPolicy(t *testing.T) {
	r := rulesOf(t, Policy{
		Hard: map[Signal]string{PIDAvailable: "100", MemoryAvailable: "1Gi", NodeFSAvailable: "0%", ImageFSAvailable: "100%"},
		Soft: map[Signal]string{MemoryAvailable: "12.5%"}, SoftGracePeriod: map[Signal]time.Duration{MemoryAvailable: time.Minute},
		MinimumReclaim: map[Signal]string{MemoryAvailable: "500M"},
	})
	want := "[memory.available<1Gi memory.available<12.5% for 1m0s pid.available<100]"
	if got := fmt.Sprint(r.Thresholds); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.Thresholds[1].Reclaim; got.Count != 500_000_000 || got.String() != "500M" {
		t.Errorf("reclaims %+v, want Count 500_000_000 and String %q", got, "500M")
	}
	if none := rulesOf(t, Policy{Hard: map[Signal]string{}}); len(none.Thresholds) > 0 {
		t.Errorf("an empty list has %v", none.Thresholds)
	}
}

// The error lists all invalid fields with their values.
func TestPolicyRefuses(t *testing.T) {
	minute := map[Signal]time.Duration{MemoryAvailable: time.Minute}
	for want, p := range map[string]Policy{
		`Policy.Hard["memory.free"]: there is no such signal`:                          {Hard: map[Signal]string{"memory.free": "1Gi"}},
		`Policy.Hard["memory.available"] is "a lot": want a quantity`:                  {Hard: map[Signal]string{MemoryAvailable: "a lot"}},
		`Policy.Hard["memory.available"] is "": want a quantity`:                       {Hard: map[Signal]string{MemoryAvailable: ""}},
		`Policy.Hard["memory.available"] is "-1Gi": want an amount`:                    {Hard: map[Signal]string{MemoryAvailable: "-1Gi"}},
		`Policy.Hard["memory.available"] is "0": want more than 0`:                     {Hard: map[Signal]string{MemoryAvailable: "0"}},
		`Policy.Hard["memory.available"] is "9E": no node has as much`:                 {Hard: map[Signal]string{MemoryAvailable: "9223372036854775807"}},
		`Policy.Hard["pid.available"] is "101%": want a percentage of 0% to 100%`:      {Hard: map[Signal]string{PIDAvailable: "101%"}},
		`Policy.Hard["pid.available"] is "-1%": want a percentage`:                     {Hard: map[Signal]string{PIDAvailable: "-1%"}},
		`Policy.Hard["pid.available"] is "NaN%": want a percentage`:                    {Hard: map[Signal]string{PIDAvailable: "NaN%"}},
		`Policy.Hard["pid.available"] is "%": want a percentage`:                       {Hard: map[Signal]string{PIDAvailable: "%"}},
		`Policy.SoftGracePeriod["memory.available"] is 0s, and Policy.Soft has`:        {Soft: map[Signal]string{MemoryAvailable: "1Gi"}},
		`Policy.MinimumReclaim["memory.available"] is "x": want a quantity`:            {MinimumReclaim: map[Signal]string{MemoryAvailable: "x"}},
		`Policy.MinimumReclaim["nodefs.available"] is "95%": with the threshold of 10`: {MinimumReclaim: map[Signal]string{NodeFSAvailable: "95%"}},
		`Policy.SoftGracePeriod["cpu.available"]: there is no such signal`:             {SoftGracePeriod: map[Signal]time.Duration{"cpu.available": 1}},
		`Policy.PressureTransitionPeriod is negative: -1s`:                             {PressureTransitionPeriod: -time.Second},
		`Policy.MaxPodGracePeriod is negative`:                                         {MaxPodGracePeriod: -time.Second},
		`Policy.Interval is 1ms, want 1s or more`:                                      {Interval: time.Millisecond},
		"is \"z\": want a quantity such as 100Mi, or a percentage such as 10%\neviction: Policy.Soft": {
			Hard: map[Signal]string{MemoryAvailable: "z"}, Soft: map[Signal]string{MemoryAvailable: "z"}, SoftGracePeriod: minute},
	} {
		want = strings.ReplaceAll(want, `"9E"`, `"9223372036854775807"`)
		if _, err := ParsePolicy(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Any text is either parsed as an amount, or causes an error.
func FuzzAmount(f *testing.F) {
	for _, text := range []string{"100Mi", "10%", "0", "0%", "-5", "1e400", "1E30%", "NaN%", "+Inf%", "12.5%", "9Ei", "100m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAmount(text)
		if err != nil {
			return
		}
		for _, capacity := range []uint64{0, 1, 1 << 62, 1<<64 - 1} {
			if got := a.Of(capacity); a.Count == 0 && got > capacity {
				t.Errorf("%q is %d of %d, more than all", text, got, capacity)
			}
			if a.text(capacity) == "" || strings.HasPrefix(a.text(capacity), "-") {
				t.Errorf("%q of %d is written %q, want a text without a minus sign", text, capacity, a.text(capacity))
			}
		}
		if again, err := parseAmount(a.String()); err != nil || again.Count != a.Count || again.Percent != a.Percent {
			t.Errorf("%q is %v, and that is %v, %v", text, a, again, err)
		}
	})
}
