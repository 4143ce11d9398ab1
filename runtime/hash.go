package runtime

import (
	"encoding/json"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
)

// HashContainer returns the hash of the parts of a container's spec that
// cannot change without a new container: its name and image. A kubelet records
// the same value in the container's annotation io.kubernetes.container.hash,
// so containers started by a kubelet can be adopted as they are.
//
// The two fields are named here one by one: a field added to the Kubernetes
// API never changes the hash, and an upgrade of podsync never restarts a
// container (kubernetes #63814, #124220).
//
// HashContainer does not allocate for names and images that need no JSON
// escaping, which valid ones never do. A nil container has the hash 0.
func HashContainer(c *v1.Container) uint64 {
	if c == nil {
		return 0
	}
	if !plainJSON(c.Name) || !plainJSON(c.Image) {
		return hashEscaped(c)
	}
	h := newDumpHash()
	h.add(`{"image":"`)
	h.add(c.Image)
	h.add(`","name":"`)
	h.add(c.Name)
	h.add(`"}`)
	return h.sum()
}

// plainJSON reports whether s stands in JSON as it is.
func plainJSON(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b < ' ', b >= utf8.RuneSelf, b == '"', b == '\\', b == '<', b == '>', b == '&':
			return false
		}
	}
	return true
}

// hashEscaped is HashContainer for strings that JSON has to escape.
func hashEscaped(c *v1.Container) uint64 {
	// Strings always marshal, and a map does so in the order of its keys.
	text, _ := json.Marshal(map[string]string{"image": c.Image, "name": c.Name})
	h := newDumpHash()
	h.add(string(text))
	return h.sum()
}

// dumpHash is the 32-bit FNV-1a hash of a byte slice as apimachinery's
// util/dump prints it, "([]uint8)[123 34 105]", without making that text.
type dumpHash struct {
	fnv     uint32
	started bool
}

func newDumpHash() dumpHash {
	h := dumpHash{fnv: 2166136261}
	for _, b := range []byte("([]uint8)[") {
		h.addByte(b)
	}
	return h
}

func (h *dumpHash) add(s string) {
	for i := range len(s) {
		if h.started {
			h.addByte(' ')
		}
		h.started = true
		b := s[i]
		if b >= 100 {
			h.addByte('0' + b/100)
		}
		if b >= 10 {
			h.addByte('0' + b/10%10)
		}
		h.addByte('0' + b%10)
	}
}

func (h *dumpHash) addByte(b byte) { h.fnv = (h.fnv ^ uint32(b)) * 16777619 }

func (h *dumpHash) sum() uint64 {
	h.addByte(']')
	return uint64(h.fnv)
}
