package device

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// FuzzKept checks that any content of the file of a pod's devices is an error, or devices that are valid in a request to
// the runtime, and that do not change by a write and a read.
func FuzzKept(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"version":1,"containers":{}}`, `{"version":1,"containers":{"app":{"devices":[{"hostPath":"/dev/a","containerPath":"/dev/b","permissions":"rw"}]}}}`,
		`{"version":1,"containers":{"app":{"mounts":[{"hostPath":"/../x","containerPath":"/"}],"env":{"A=":""},"cdiDevices":["a/b=c"]}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, again stored
		if json.Unmarshal(text, &s) != nil || s.check() != nil {
			return
		}
		for name, given := range s.Containers {
			if err := given.Validate(); err != nil {
				t.Errorf("container %q: %v", name, err)
			}
		}
		once, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(json.Unmarshal(once, &again), again.check()); err != nil {
			t.Fatalf("%s became %s: %v", text, once, err)
		}
		if twice, err := json.Marshal(again); err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%s became %s, and then %s, %v", text, once, twice, err)
		}
	})
}
