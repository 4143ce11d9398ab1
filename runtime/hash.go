package runtime

import (
	"encoding/json"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// HashContainer returns a hash over those parts in a container's spec that
// cannot change without a new container: its name and image. A kubelet records
// the same value in the container's annotation io.kubernetes.container.hash, so
// containers started by a kubelet can be adopted as they are.
//
// The two fields are named here one by one: a field added to the Kubernetes API
// never changes the hash, and a podsync upgrade never restarts a container
// (kubernetes #63814, #124220).
//
// HashContainer does not allocate for names and images that need no JSON
// escaping, which valid ones never do. A nil container has the hash 0.
func HashContainer(c *v1.Container) uint64 {
	if c == nil {
		return 0
	}
	h := addDecimals(hashOfImageKey, jsonText(c.Image))
	h = addDecimals(h, `","name":"`)
	h = addDecimals(h, jsonText(c.Name))
	h = addDecimals(h, `"}`)
	return uint64(addByte(h, ']'))
}

// The hash is the 32-bit FNV-1a hash over the text "([]uint8)[123 34 105 ...]": apimachinery's
// util/dump prints the JSON object with image and name this way, as a byte slice. HashContainer
// never builds this text. hashOfImageKey is the hash state after `{"image":"`.
const (
	hashOfImageKey uint32 = 0x323ecb63
	fnvPrime       uint32 = 16777619
)

func addByte(h uint32, b byte) uint32 { return (h ^ uint32(b)) * fnvPrime }

// addDecimals adds the bytes of s, each as a space and its decimal digits.
func addDecimals(h uint32, s string) uint32 {
	for i := range len(s) {
		b := s[i]
		h = addByte(h, ' ')
		if b >= 100 {
			h = addByte(h, '0'+b/100)
		}
		if b >= 10 {
			h = addByte(h, '0'+b/10%10)
		}
		h = addByte(h, '0'+b%10)
	}
	return h
}

// jsonText returns s as JSON writes it between quotes.
func jsonText(s string) string {
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ', b >= utf8.RuneSelf, b == '"', b == '\\', b == '<', b == '>', b == '&':
			quoted, _ := json.Marshal(s) // a string always marshals
			return string(quoted[1 : len(quoted)-1])
		}
	}
	return s
}
