package expand

import "fmt"

const (
	// MaxString is the most bytes that Linux passes to a process as one argument, or as one
	// variable with its name: MAX_ARG_STRLEN without the NUL at the end.
	MaxString = 128<<10 - 1
	// MaxTotal is the most that all arguments and variables of a process may take together: a
	// quarter of its stack limit, which is 8 MiB unless an administrator has changed it for the
	// runtime.
	MaxTotal = 2 << 20
	// overhead is what Linux counts for each of them beside its bytes: a NUL and a pointer.
	overhead = 1 + 8
)

// A Budget counts what a process is started with. The zero value has all of MaxTotal left.
type Budget struct{ used int }

// Left is how many bytes the next string may have, negative if none fits.
func (b *Budget) Left() int { return min(MaxString, MaxTotal-b.used-overhead) }

// Add counts a string of n bytes. It returns an error, and counts nothing, if that is more than
// is left.
func (b *Budget) Add(n int) error {
	if n > b.Left() {
		return b.TooLong()
	}
	b.used += n + overhead
	return nil
}

// Remove takes back what Add has counted.
func (b *Budget) Remove(n int) { b.used -= n + overhead }

// TooLong is the error for a string that is longer than Left. It does not hold the string.
func (b *Budget) TooLong() error {
	if b.Left() == MaxString {
		return fmt.Errorf("it has more than %d bytes, the most that Linux passes to a process as one argument or variable", MaxString)
	}
	return fmt.Errorf("environment, command and args have more than %d bytes with it, the most that Linux passes to a process by default", MaxTotal)
}
