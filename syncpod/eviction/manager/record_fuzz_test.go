package manager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/eviction"
)

// FuzzEviction checks that any content of the file of an eviction is either set aside, or an eviction with a grace
// period of at least a second, which is restored once.
func FuzzEviction(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"signal":"memory.available","graceSeconds":30,"message":"The node was low on resource"}`, `{"graceSeconds":-9223372036854775808}`, `{"graceSeconds":1e3}`, `{"message":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), text, 0o600))
		m := &Manager{config: Config{Log: logr.Discard()}, state: podfile.Dir(dir), left: map[types.UID]eviction.Eviction{}}
		m.restore()
		e, is := m.left["a"]
		if is && e.GraceSeconds < 1 {
			t.Errorf("%q is %+v", text, e)
		}
		uids, err := m.state.List()
		if err != nil || is != (len(uids) == 1) {
			t.Errorf("%q is restored: %t, and the files are %q, %v", text, is, uids, err)
		}
	})
}
