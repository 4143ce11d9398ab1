package eviction

import (
	"fmt"
	"time"
)

// A Reading is a signal's available amount.
type Reading struct {
	Signal Signal
	// Available and Capacity are in bytes, inodes or processes.
	Available, Capacity uint64
	// Time is when the value was read.
	Time time.Time
}

// MaxAge is the maximum age for a valid Reading, and the maximum by which its time may be in the
// future.
const MaxAge = time.Minute

// fault returns why a reading is invalid, "" if it is valid.
func (r *Reading) fault(now time.Time) string {
	switch age := now.Sub(r.Time); {
	case r.Capacity == 0:
		return "its capacity is zero"
	case r.Available > r.Capacity:
		return fmt.Sprintf("%d of %d are available", r.Available, r.Capacity)
	case r.Time.IsZero():
		return "it has no time"
	case age > MaxAge:
		return fmt.Sprintf("it was read %v ago", age.Round(time.Second))
	case age < -MaxAge:
		return fmt.Sprintf("its time is %v in the future", (-age).Round(time.Second))
	}
	return ""
}

// A Problem is the reason why a threshold was not checked.
type Problem struct {
	Threshold Threshold
	// Message is for people.
	Message string
}

// String names the threshold and the problem.
func (p Problem) String() string {
	return fmt.Sprintf("%v is not checked: %s", p.Threshold, p.Message)
}

// readable returns the reading for a threshold, or why there is no valid one.
func (s *State) readable(t Threshold, now time.Time) (*Reading, string) {
	for i := range s.Readings {
		r := &s.Readings[i]
		if r.Signal != t.Signal {
			continue
		}
		if fault := r.fault(now); fault != "" {
			return nil, fault
		}
		if t.Value.Of(r.Capacity) > r.Capacity {
			return nil, fmt.Sprintf("the threshold is more than the node has, %v", amountOf(t.Signal, r.Capacity))
		}
		return r, ""
	}
	return nil, "it could not be read"
}

// amountOf formats a signal's amount.
func amountOf(s Signal, n uint64) string {
	q := quantity(ResourceOf(s), n)
	return q.String()
}
