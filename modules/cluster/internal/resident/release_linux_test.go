package resident_test

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podsync/podsync/modules/cluster/internal/resident"
)

// After Release the program has fewer pages of files in memory, and goes on.
func TestRelease(t *testing.T) {
	before := filePages(t)
	err := resident.Release()
	if errors.Is(err, unix.EINVAL) {
		t.Skipf("this kernel is older than Linux 5.4: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if after := filePages(t); after > before*2/3 {
		t.Errorf("%d kB of files are in memory, before Release %d kB", after, before)
	}
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
