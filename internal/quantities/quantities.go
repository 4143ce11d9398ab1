// Package quantities limits quantities. The Kubernetes API has no limit: its parser expands
// 1e-266666600 to a number of a hundred million digits, and parses 1e1666660 quickly, but printing
// it does not end.
package quantities

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxText is the maximum length of a text in bytes, maxExponent the maximum number of digits of
	// its exponent: more than any real amount needs.
	maxText, maxExponent = 100, 2
	// maxBits and maxScale limit the number and the power of ten of a parsed quantity. Texts that Check accepts stay well
	// below both limits, and so do the sums of such quantities.
	maxBits, maxScale = 1024, 200
)

// ErrFormat replaces the errors of the API's parser, which show a regular expression.
var ErrFormat = errors.New("a quantity is a number with or without a unit, such as 2, 500m, 64Mi or 1.5G")

// Check returns an error for a text that takes too long to parse. It does not check whether the text is a quantity; the
// parser does.
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

// CheckParsed returns an error for a quantity that takes too long to compare, add or print. The error does
// not print it.
func CheckParsed(q resource.Quantity) error {
	number := q.AsDec()
	if scale := number.Scale(); scale < -maxScale || scale > maxScale || number.UnscaledBig().BitLen() > maxBits {
		return fmt.Errorf("a quantity has at most %d binary digits, and a power of ten between -%d and %d", maxBits, maxScale, maxScale)
	}
	return nil
}

// Suspect reports whether JSON may contain a text that Check rejects.
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
