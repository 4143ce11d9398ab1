package shutdown

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func TestValidate(t *testing.T) {
	for want, p := range map[string]Policy{
		"":                                     {GracePeriod: seconds(30), CriticalGracePeriod: seconds(30)},
		"GracePeriod is -1s":                   {GracePeriod: -time.Second},
		"GracePeriod is 500ms":                 {GracePeriod: time.Second / 2},
		"CriticalGracePeriod is -1s":           {CriticalGracePeriod: -time.Second},
		"CriticalGracePeriod is 31s, and":      {GracePeriod: seconds(30), CriticalGracePeriod: seconds(31)},
		"GracePeriod is 1s and ByPriority has": {GracePeriod: time.Second, ByPriority: []Period{{}}},
		"ByPriority[1].GracePeriod is -1s":     {ByPriority: []Period{{}, {1, -time.Second}}},
		"ByPriority[2].Priority is 0, which":   {ByPriority: []Period{{0, 0}, {1, 0}, {0, seconds(3)}}},
	} {
		if err := p.Validate(); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}
