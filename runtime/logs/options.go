package logs

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns the invalid options with their fields' names, as an API server does, except
// that it accepts tailLines for a single stream. Nil options are valid and select the whole log.
func Validate(o *v1.PodLogOptions) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	least := func(name string, value *int64, least int64) {
		if value != nil && *value < least {
			errs = append(errs, field.Invalid(field.NewPath(name), *value, "must be greater than or equal to "+[]string{"0", "1"}[least]))
		}
	}
	least("tailLines", o.TailLines, 0)
	least("limitBytes", o.LimitBytes, 1)
	least("sinceSeconds", o.SinceSeconds, 1)
	if o.SinceSeconds != nil && o.SinceTime != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sinceTime"), "at most one of sinceTime and sinceSeconds may be given"))
	}
	streams := []string{v1.LogStreamAll, v1.LogStreamStdout, v1.LogStreamStderr}
	if o.Stream != nil && !slices.Contains(streams, *o.Stream) {
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream, streams))
	}
	return errs
}

// A window is the log part that the options select.
type window struct {
	since      time.Time
	limit      int64 // of bytes, -1 for none
	tail       int64 // lines, -1 for all
	timestamps bool
	wanted     [2]bool // by stream
}

// windowOf converts valid options at the time now.
func windowOf(o *v1.PodLogOptions, now time.Time) window {
	w := window{limit: -1, tail: -1, wanted: [2]bool{true, true}}
	if o == nil {
		return w
	}
	if o.TailLines != nil {
		w.tail = *o.TailLines
	}
	if o.LimitBytes != nil {
		w.limit = *o.LimitBytes
	}
	if o.Stream != nil && *o.Stream != v1.LogStreamAll {
		w.wanted = [2]bool{stdout: *o.Stream == v1.LogStreamStdout, stderr: *o.Stream == v1.LogStreamStderr}
	}
	w.timestamps = o.Timestamps
	switch {
	case o.SinceSeconds != nil:
		w.since = before(now, *o.SinceSeconds)
	case o.SinceTime != nil:
		w.since = o.SinceTime.Time
	}
	return w
}

// before returns the time the given seconds before now. The result is never after now, also for
// very large or negative values.
func before(now time.Time, seconds int64) time.Time {
	return time.Unix(max(0, now.Unix()-min(seconds, now.Unix())), int64(now.Nanosecond()))
}
