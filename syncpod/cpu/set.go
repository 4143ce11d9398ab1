package cpu

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxCPUs is the number of CPUs that a [Set] can hold, as many as a Linux kernel supports.
const MaxCPUs = 8192

// A Set is an immutable set of logical CPUs. The zero Set is empty.
type Set struct {
	words []uint64 // bit n%64 of word n/64 is CPU n; the last word is not zero
}

// SetOf returns the set of the given CPUs.
func SetOf(cpus ...int) (Set, error) {
	var s Set
	for _, c := range cpus {
		if c < 0 || c >= MaxCPUs {
			return Set{}, fmt.Errorf("CPU %d is not from 0 to %d", c, MaxCPUs-1)
		}
		s.add(c)
	}
	return s, nil
}

// ParseSet reads the list format of Linux: "0-3,8". White space around the list is ignored.
func ParseSet(list string) (Set, error) {
	var s Set
	list = strings.TrimSpace(list)
	if list == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return Set{}, fmt.Errorf("CPU list %.40q: %.20q is not a CPU", list, from)
		}
		last, err := strconv.ParseUint(to, 10, 16)
		if err != nil || last < first || last >= MaxCPUs {
			return Set{}, fmt.Errorf("CPU list %.40q: %.20q is not a CPU from %d to %d", list, to, first, MaxCPUs-1)
		}
		for c := first; c <= last; c++ {
			s.add(int(c))
		}
	}
	return s, nil
}

// add writes to s, which nobody else may have.
func (s *Set) add(cpu int) {
	for len(s.words) <= cpu/64 {
		s.words = append(s.words, 0)
	}
	s.words[cpu/64] |= 1 << (cpu % 64)
}

// Has reports whether a CPU is in the set.
func (s Set) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]>>(cpu%64)&1 == 1
}

// Len returns the number of CPUs.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s Set) IsEmpty() bool { return len(s.words) == 0 }

// Equal reports whether both sets have the same CPUs.
func (s Set) Equal(other Set) bool {
	return len(s.words) == len(other.words) && s.common(other) == s.Len() && s.Len() == other.Len()
}

// Contains reports whether each CPU of other is in s.
func (s Set) Contains(other Set) bool {
	if len(other.words) > len(s.words) {
		return false
	}
	for i, w := range other.words {
		if w&^s.words[i] != 0 {
			return false
		}
	}
	return true
}

// common returns the number of CPUs that are in both sets.
func (s Set) common(other Set) int {
	n := 0
	for i := range min(len(s.words), len(other.words)) {
		n += bits.OnesCount64(s.words[i] & other.words[i])
	}
	return n
}

// Union returns the CPUs that are in s or in other.
func (s Set) Union(other Set) Set {
	if len(s.words) < len(other.words) {
		s, other = other, s
	}
	words := append([]uint64(nil), s.words...)
	for i, w := range other.words {
		words[i] |= w
	}
	return Set{words}
}

// Intersect returns the CPUs that are in s and in other.
func (s Set) Intersect(other Set) Set {
	words := append([]uint64(nil), s.words[:min(len(s.words), len(other.words))]...)
	for i := range words {
		words[i] &= other.words[i]
	}
	return trimmed(words)
}

// Minus returns the CPUs that are in s and not in other.
func (s Set) Minus(other Set) Set {
	words := append([]uint64(nil), s.words...)
	for i := range min(len(words), len(other.words)) {
		words[i] &^= other.words[i]
	}
	return trimmed(words)
}

func trimmed(words []uint64) Set {
	n := len(words)
	for n > 0 && words[n-1] == 0 {
		n--
	}
	if n == 0 {
		return Set{}
	}
	return Set{words[:n]}
}

// All yields the CPUs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// first returns the n lowest CPUs, or all if there are fewer.
func (s Set) first(n int) Set {
	var lowest Set
	for c := range s.All() {
		if n == 0 {
			break
		}
		lowest.add(c)
		n--
	}
	return lowest
}

// String returns the list format of Linux: "0-3,8"; "" for the empty set.
func (s Set) String() string {
	var b []byte
	for c := range s.All() {
		if s.Has(c - 1) {
			continue
		}
		last := c
		for s.Has(last + 1) {
			last++
		}
		if b != nil {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(c), 10)
		if last > c {
			b = strconv.AppendInt(append(b, '-'), int64(last), 10)
		}
	}
	return string(b)
}

// MarshalText returns String.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseSet reads.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := ParseSet(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
