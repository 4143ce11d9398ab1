package env

import (
	"fmt"
)

const (
	// MaxString is how many bytes Linux passes at most to a process as one argument, or as one variable with its name:
	// MAX_ARG_STRLEN without the NUL at the end.
	MaxString = 128<<10 - 1
	// MaxTotal is the maximum for all arguments and variables of a process together: a quarter stack
	// limit, which is 8 MiB unless an administrator has changed it for the runtime.
	MaxTotal = 2 << 20
	// overhead is how many bytes Linux adds to each string: a NUL and a pointer.
	overhead = 1 + 8
)

// A Budget counts the strings with which a process is started. The zero value has all MaxTotal left.
type Budget struct{ used int }

// Left returns the next string's maximum length, negative if none fits.
func (b *Budget) Left() int { return min(MaxString, MaxTotal-b.used-overhead) }

// Add counts a string with n bytes. If fewer bytes are left, it returns an error and counts
// nothing.
func (b *Budget) Add(n int) error {
	if n > b.Left() {
		return b.TooLong()
	}
	b.used += n + overhead
	return nil
}

// Remove subtracts what Add has counted.
func (b *Budget) Remove(n int) { b.used -= n + overhead }

// TooLong returns the error for a string that is longer than Left. It does not contain the string.
func (b *Budget) TooLong() error {
	if b.Left() == MaxString {
		return fmt.Errorf("it has more than %d bytes, the most that Linux passes to a process as one argument or variable", MaxString)
	}
	return fmt.Errorf("environment, command and args have more than %d bytes with it, the most that Linux passes to a process by default", MaxTotal)
}

const (
	// maxRead limits the bytes that one environment reads: each ConfigMap and Secret that it names, each use by an envFrom,
	// and each value. The resulting variables are limited to 2 MiB, but a pod may name 80,000 objects with 1 MiB, which are in
	// memory at the same time, or replace the same variables arbitrarily often.
	maxRead = 32 << 20
	// perKey is added to each key's bytes, because a short key takes time, too.
	perKey = 64
)

// spend counts bytes against maxRead.
func (r *resolver) spend(n int) error {
	if n > r.room {
		return fmt.Errorf("the environment reads more than %d bytes of objects and values", maxRead)
	}
	r.room -= n
	return nil
}

// bytesOf returns the size that a ConfigMap's or Secret's data counts as.
func bytesOf[V string | []byte](data map[string]V) (n int) {
	for key, value := range data {
		n += len(key) + len(value) + perKey
	}
	return n
}
