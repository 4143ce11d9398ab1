// Package quantities bounds the text of a quantity before it is parsed: 1e-266666600 is a number
// of a hundred million digits to the parser of the Kubernetes API, which has no limit.
package quantities

import (
	"fmt"
	"strings"
)

const (
	// maxText is the length of the longest text, in bytes, and maxExponent the most digits of its
	// exponent: more than any node has, or can tell apart, takes.
	maxText, maxExponent = 100, 2
)

// Check returns an error for a text that takes too long to parse. Whether the text is a quantity
// is for the parser to say.
func Check(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("a quantity has at most %d characters", maxText)
	}
	at := strings.IndexAny(text, "eE")
	if at >= 0 && digits(strings.TrimLeft(text[at+1:], "+-0")) > maxExponent {
		return fmt.Errorf("the exponent of a quantity has at most %d digits", maxExponent)
	}
	return nil
}

// Suspect reports whether JSON may have a text in it that Check refuses.
func Suspect(raw []byte) bool {
	for i, run := 0, 0; i < len(raw); i++ {
		if run++; !strings.ContainsRune("0123456789.", rune(raw[i])) {
			run = 0
		}
		if run > maxText/2 || (raw[i] == 'e' || raw[i] == 'E') && digits(strings.TrimLeft(string(raw[i+1:min(i+1+maxText, len(raw))]), "+-0")) > maxExponent {
			return true
		}
	}
	return false
}

// digits returns the number of digits at the beginning of a text.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}
