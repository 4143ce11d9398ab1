// Package jitter spreads simultaneous retries over time.
package jitter

import "time"

// UpTo returns a duration from 0 to limit, and 0 if limit is not positive. It depends only on who and since: equal
// arguments give equal durations, and waiters with the same since get different durations.
func UpTo(limit time.Duration, who string, since time.Time) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(mix(fnv(who)^uint64(since.UnixNano())) % (uint64(limit) + 1))
}

// fnv returns the 64-bit FNV-1a hash. Package hash/fnv would allocate.
func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix makes every bit of the result depend on every bit of h, as SplitMix64's last step does.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
