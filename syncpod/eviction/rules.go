package eviction

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rules are a Policy that was read.
type Rules struct {
	// Thresholds are sorted by precedence.
	Thresholds []Threshold
	// TransitionPeriod, MaxPodGrace and StorageLimits are the Policy's fields.
	TransitionPeriod, MaxPodGrace time.Duration
	StorageLimits                 bool
}

func withDefaults(p Policy) Policy {
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

// Interval returns the Policy's Interval, or its default.
func Interval(p Policy) time.Duration {
	if p.Interval == 0 {
		return 10 * time.Second
	}
	return p.Interval
}

// ParsePolicy parses a policy. The error names each invalid field, with the reason.
func ParsePolicy(p Policy) (Rules, error) {
	p = withDefaults(p)
	errs := []error{
		checkTimes(&p), checkSignals("Hard", p.Hard), checkSignals("Soft", p.Soft),
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
			t, err := thresholdOf(&p, of.field, s, text, of.grace)
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

func thresholdOf(p *Policy, field string, s Signal, text string, grace time.Duration) (Threshold, error) {
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

// checkSignals rejects signals that are not node signals.
func checkSignals[T any](field string, of map[Signal]T) error {
	var errs []error
	for _, s := range slices.Sorted(maps.Keys(of)) {
		if ResourceOf(s) == "" {
			errs = append(errs, fmt.Errorf("eviction: Policy.%s[%q]: there is no such signal, only %q", field, s, signals()))
		}
	}
	return errors.Join(errs...)
}

func checkTimes(p *Policy) error {
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
