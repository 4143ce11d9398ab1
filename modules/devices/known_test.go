package devices

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A file that would be too large to be read again is not written: the error names the resource with too many devices, and
// the file stays unchanged.
func TestNoMoreIsRememberedThanCanBeRead(t *testing.T) {
	k := known{knownVersion, map[string][]string{"vendor.example/few": {"a"}, "vendor.example/many": nil}}
	for i := range 17 << 10 {
		k.Resources["vendor.example/many"] = append(k.Resources["vendor.example/many"], fmt.Sprintf("%01000d", i))
	}
	if _, err := k.text(); err == nil || !strings.Contains(err.Error(), "resource vendor.example/many has 17408 devices") {
		t.Errorf("error %v, want the resource named", err)
	}
	k.Resources["vendor.example/many"] = k.Resources["vendor.example/many"][:1<<14]
	text, err := k.text()
	if err != nil || len(text) > maxKnown {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	f := knownFile{path: filepath.Join(t.TempDir(), "resources.json")}
	must.Do(t, f.replace(text))
	if got, err := f.read(); err != nil || len(got["vendor.example/many"]) != 1<<14 {
		t.Errorf("%d devices are read, %v", len(got["vendor.example/many"]), err)
	}
}
