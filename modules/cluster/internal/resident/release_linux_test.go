package resident_test

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/sys/unix"

	"github.com/podsync/podsync/modules/cluster/internal/resident"
)

// After its start the program has fewer pages of files in memory, and goes on.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed string
		log := funcr.New(func(_, args string) { failed = args }, funcr.Options{Verbosity: 1})
		before := filePages(t)
		if err := resident.ReleaseAfterStart(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(failed, unix.EINVAL.Error()) {
			t.Skipf("this kernel is older than Linux 5.4: %s", failed)
		}
		if after := filePages(t); failed != "" || after > before*2/3 {
			t.Errorf("%d kB of files are in memory, before %d kB; %s", after, before, failed)
		}
	})
}

// filePages returns RssFile of this process in kB.
func filePages(t *testing.T) int {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "RssFile:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("/proc/self/status has no RssFile")
	return 0
}
