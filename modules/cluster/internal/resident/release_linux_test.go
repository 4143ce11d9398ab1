package resident_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/sys/unix"

	"github.com/podsync/podsync/modules/cluster/internal/resident"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// After its start the program has fewer pages of files in memory, and goes on.
func TestRelease(t *testing.T) {
	if olderThan54(t) {
		t.Skip("a kernel before Linux 5.4 has no MADV_PAGEOUT")
	}
	synctest.Test(t, func(t *testing.T) {
		var failed string
		log := funcr.New(func(_, args string) { failed = args }, funcr.Options{Verbosity: 1})
		before := filePages(t)
		resident.ReleaseAfterStart(t.Context(), log)
		if after := filePages(t); failed != "" || after > before*2/3 {
			t.Errorf("%d kB of files are in memory, before %d kB; %s", after, before, failed)
		}
	})
}

// If the kernel refuses, it reads the neighbours of pages as before. It refuses locked pages.
func TestReleaseIsRefused(t *testing.T) {
	start, _ := programPages(t)
	size := uintptr(os.Getpagesize())
	if _, _, code := unix.Syscall(unix.SYS_MLOCK, start, size, 0); code != 0 {
		t.Skipf("a page cannot be locked: %v", code)
	}
	defer unix.Syscall(unix.SYS_MUNLOCK, start, size, 0)
	synctest.Test(t, func(t *testing.T) {
		var failed string
		resident.ReleaseAfterStart(t.Context(), funcr.New(func(_, args string) { failed = args }, funcr.Options{Verbosity: 1}))
		if !strings.Contains(failed, unix.EINVAL.Error()) {
			t.Errorf("the log has %q, want %q", failed, unix.EINVAL)
		}
		if at, flags := programPages(t); at != start || !slices.Contains(flags, "lo") || slices.Contains(flags, "rr") {
			t.Errorf("the pages at %x have the flags %q, want those at %x, with lo (locked) and without rr (MADV_RANDOM)", at, flags, start)
		}
	})
}

// programPages returns the address of the first pages of the program's file, and their flags in /proc/self/smaps.
func programPages(t *testing.T) (start uintptr, flags []string) {
	t.Helper()
	file := must.Get(os.Readlink("/proc/self/exe"))(t)
	f := must.Get(os.Open("/proc/self/smaps"))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && start != 0 {
			return start, strings.Fields(text)
		}
		if start == 0 && strings.HasSuffix(lines.Text(), " "+file) {
			must.Get(fmt.Sscanf(lines.Text(), "%x-", &start))(t)
		}
	}
	t.Fatal("/proc/self/smaps does not have the program")
	return 0, nil
}

// olderThan54 reports whether the kernel is older than Linux 5.4.
func olderThan54(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	must.Do(t, unix.Uname(&name))
	var major, minor int
	must.Get(fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor))(t)
	return major < 5 || major == 5 && minor < 4
}

// filePages returns RssFile of this process in kB.
func filePages(t *testing.T) int {
	t.Helper()
	f := must.Get(os.Open("/proc/self/status"))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "RssFile:"); ok {
			n := must.Get(strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB")))(t)
			return n
		}
	}
	t.Fatal("/proc/self/status has no RssFile")
	return 0
}
