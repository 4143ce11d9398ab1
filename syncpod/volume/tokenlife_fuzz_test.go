package volume

import (
	"testing"
	"time"
)

// FuzzGrantedLife: whatever a token contains, its lifetime is zero or a valid duration.
func FuzzGrantedLife(f *testing.F) {
	for _, text := range []string{
		"", "..", "a.eyJpYXQiOjEsImV4cCI6MzYwMX0.b", "a.eyJpYXQiOjEsImV4cCI6MWUzMDh9.b", "a.eyJpYXQiOi0xZTMwOCwiZXhwIjoxZTMwOH0.b", "a.eyJpYXQiOiIxIn0.b", "a.eyJpYXQiOjEsImV4cCI6MX0",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if life := granted(text); life != 0 && (life < time.Second || life > maxSeconds*time.Second) {
			t.Errorf("%q lives for %v", text, life)
		}
	})
}
