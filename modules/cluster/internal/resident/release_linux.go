package resident

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// release drops the pages of the program's file from memory (MADV_PAGEOUT, since Linux 5.4). Those that the program uses
// are read again when it uses them, each without its neighbours (MADV_RANDOM). It keeps pages that the program can change.
func release() error {
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		m := lines.Text()
		var start, end uintptr
		var access string
		if _, err := fmt.Sscanf(m, "%x-%x %s", &start, &end, &access); err != nil {
			return fmt.Errorf("/proc/self/maps: %q: %w", m, err)
		}
		if !strings.HasSuffix(m, " "+file) || strings.Contains(access, "w") {
			continue
		}
		for _, advice := range []uintptr{unix.MADV_RANDOM, unix.MADV_PAGEOUT} {
			if _, _, code := unix.Syscall(unix.SYS_MADVISE, start, end-start, advice); code != 0 {
				return fmt.Errorf("madvise %d: %w", advice, code)
			}
		}
	}
	return lines.Err()
}
