package eviction

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/quantities"
)

// A Threshold is the available amount below which the node is under pressure.
type Threshold struct {
	Signal Signal
	// Value is the required available amount.
	Value Amount
	// Reclaim is the amount above Value that must be available to end the pressure after an eviction.
	Reclaim Amount
	// Grace is how long the threshold must be met before pods are evicted. Zero means a hard threshold:
	// pods are evicted immediately.
	Grace time.Duration
}

// String returns the threshold in the form memory.available<100Mi.
func (t Threshold) String() string {
	text := fmt.Sprintf("%s<%v", t.Signal, t.Value)
	if t.Grace > 0 {
		text += fmt.Sprintf(" for %v", t.Grace)
	}
	return text
}

// An Amount is a number, or a capacity percentage. The zero Amount is nothing.
type Amount struct {
	// Count counts bytes, inodes or processes.
	Count uint64
	// Percent counts if Count is zero.
	Percent float64
	written string
}

// String returns the amount as it was written, or in a readable form.
func (a Amount) String() string {
	switch {
	case a.written != "":
		return a.written
	case a.Count == 0 && a.Percent > 0:
		return strconv.FormatFloat(a.Percent, 'g', -1, 64) + "%"
	}
	return strconv.FormatUint(a.Count, 10)
}

// Of returns the amount for a capacity.
func (a Amount) Of(capacity uint64) uint64 {
	if a.Count > 0 || a.Percent <= 0 {
		return a.Count
	}
	return uint64(float64(capacity) * min(a.Percent, 100) / 100)
}

// text formats an amount as a kubelet does.
func (a Amount) text(capacity uint64) string {
	if a.Count > 0 {
		return a.String()
	}
	return resource.NewQuantity(int64(min(a.Of(capacity), math.MaxInt64)), resource.BinarySI).String()
}

// parseAmount parses a quantity such as 100Mi, or a percentage such as 10%.
func parseAmount(text string) (Amount, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Amount{}, errors.New("want a percentage of 0% to 100%")
		}
		return Amount{Percent: percent}, nil
	}
	if err := quantities.Check(text); err != nil {
		return Amount{}, err
	}
	q, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return Amount{}, errors.New("want a quantity such as 100Mi, or a percentage such as 10%")
	case q.Sign() < 0:
		return Amount{}, errors.New("want an amount that is not negative")
	case q.CmpInt64(math.MaxInt64) >= 0:
		return Amount{}, errors.New("no node has as much")
	}
	return Amount{Count: uint64(q.Value()), written: q.String()}, nil
}
