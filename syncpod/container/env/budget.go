package env

import "fmt"

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
