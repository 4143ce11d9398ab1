package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Policy configures evictions. The zero Policy is a kubelet's default. Amounts are quantities, such
// as 100Mi, or percentages of the capacity, such as 10%; 0% or 100% means no threshold.
type Policy struct {
	// Hard are the thresholds for which pods are evicted immediately (evictionHard). Default, if
	// nil: memory.available 100Mi, nodefs.available 10%, nodefs.inodesFree 5%, imagefs.available
	// 15%, imagefs.inodesFree 5%. A non-nil map replaces all of these.
	Hard map[Signal]string
	// Soft are thresholds that must be met for a grace period before pods are evicted
	// (evictionSoft). SoftGracePeriod has the grace period of each (evictionSoftGracePeriod).
	Soft            map[Signal]string
	SoftGracePeriod map[Signal]time.Duration
	// MinimumReclaim is how much more than a threshold must be available after an eviction for it
	// (evictionMinimumReclaim). Default: nothing.
	MinimumReclaim map[Signal]string
	// PressureTransitionPeriod is how long a pressure is reported after it was last observed
	// (evictionPressureTransitionPeriod). Default 5 min.
	PressureTransitionPeriod time.Duration
	// MaxPodGracePeriod limits the grace period of a pod that is evicted for a soft threshold
	// (evictionMaxPodGracePeriod), in whole seconds. Default, and minimum, 1 s.
	MaxPodGracePeriod time.Duration
	// IgnoreStorageLimits disables the eviction of pods that exceed emptyDir.sizeLimit or their
	// limits of ephemeral-storage.
	IgnoreStorageLimits bool
	// Interval is the interval of observations of the node. Default 10 s.
	Interval time.Duration
}

// Rules are a Policy that was read.
type Rules struct {
	// Thresholds are in the order of precedence.
	Thresholds []Threshold
	// TransitionPeriod, MaxPodGrace and StorageLimits are the fields of the Policy.
	TransitionPeriod, MaxPodGrace time.Duration
	StorageLimits                 bool
}

// DefaultHard returns the thresholds of a Policy without Hard ones.
func DefaultHard() map[Signal]string {
	return map[Signal]string{
		MemoryAvailable: "100Mi", NodeFSAvailable: "10%", NodeFSInodesFree: "5%", ImageFSAvailable: "15%", ImageFSInodesFree: "5%",
	}
}

func (p Policy) withDefaults() Policy {
	if p.Hard == nil {
		p.Hard = DefaultHard()
	}
	if p.PressureTransitionPeriod == 0 {
		p.PressureTransitionPeriod = 5 * time.Minute
	}
	if p.MaxPodGracePeriod == 0 {
		p.MaxPodGracePeriod = time.Second
	}
	return p
}

// Every is the Interval, or its default.
func (p Policy) Every() time.Duration {
	if p.Interval == 0 {
		return 10 * time.Second
	}
	return p.Interval
}

// Rules reads the policy. The error names each field that is wrong, and says why.
func (p Policy) Rules() (Rules, error) {
	p = p.withDefaults()
	errs := []error{
		p.checkTimes(), checkSignals("Hard", p.Hard), checkSignals("Soft", p.Soft),
		checkSignals("SoftGracePeriod", p.SoftGracePeriod), checkSignals("MinimumReclaim", p.MinimumReclaim),
	}
	r := Rules{TransitionPeriod: p.PressureTransitionPeriod, MaxPodGrace: p.MaxPodGracePeriod, StorageLimits: !p.IgnoreStorageLimits}
	for _, s := range signals() {
		for _, of := range []struct {
			field string
			texts map[Signal]string
			grace time.Duration
		}{{"Hard", p.Hard, 0}, {"Soft", p.Soft, p.SoftGracePeriod[s]}} {
			text, ok := of.texts[s]
			if !ok {
				continue
			}
			t, err := p.threshold(of.field, s, text, of.grace)
			errs = append(errs, err)
			if err == nil && !t.off() {
				r.Thresholds = append(r.Thresholds, t)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Rules{}, err
	}
	return r, nil
}

// off reports whether the threshold is disabled.
func (t Threshold) off() bool {
	return t.Value.Count == 0 && (t.Value.Percent == 0 || t.Value.Percent == 100)
}

func (p *Policy) threshold(field string, s Signal, text string, grace time.Duration) (Threshold, error) {
	value, err := parseAmount(text)
	switch {
	case err != nil:
		return Threshold{}, wrong(field, s, text, err)
	case value == (Amount{written: "0"}):
		return Threshold{}, wrong(field, s, text, errors.New("want more than 0, or 0% for no threshold"))
	case field == "Soft" && grace <= 0:
		return Threshold{}, fmt.Errorf("eviction: Policy.SoftGracePeriod[%q] is %v, and Policy.Soft has a threshold for it: want more than 0", s, grace)
	}
	t := Threshold{Signal: s, Value: value, Grace: grace}
	if more, ok := p.MinimumReclaim[s]; ok {
		if t.Reclaim, err = parseAmount(more); err != nil {
			return Threshold{}, wrong("MinimumReclaim", s, more, err)
		}
	}
	if !t.off() && t.Value.Percent+t.Reclaim.Percent > 100 {
		return Threshold{}, wrong("MinimumReclaim", s, t.Reclaim.String(), fmt.Errorf("with the threshold of %v that is more than there can be", t.Value))
	}
	return t, nil
}

func wrong(field string, s Signal, value string, err error) error {
	return fmt.Errorf("eviction: Policy.%s[%q] is %q: %w", field, s, value, err)
}

// checkSignals rejects signals that are not signals of the node.
func checkSignals[T any](field string, of map[Signal]T) error {
	var errs []error
	for _, s := range slices.Sorted(maps.Keys(of)) {
		if s.Resource() == "" {
			errs = append(errs, fmt.Errorf("eviction: Policy.%s[%q]: there is no such signal, only %q", field, s, signals()))
		}
	}
	return errors.Join(errs...)
}

func (p *Policy) checkTimes() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"PressureTransitionPeriod", p.PressureTransitionPeriod}, {"MaxPodGracePeriod", p.MaxPodGracePeriod}, {"Interval", p.Interval}} {
		if f.value < 0 {
			return fmt.Errorf("eviction: Policy.%s is negative: %v", f.name, f.value)
		}
	}
	if p.Interval > 0 && p.Interval < time.Second {
		return fmt.Errorf("eviction: Policy.Interval is %v, want 1s or more", p.Interval)
	}
	return nil
}
