package resident

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// release drops the pages of the program's file from memory (MADV_PAGEOUT, since Linux 5.4). Those that the program uses
// are read again when it uses them, each without its neighbours (MADV_RANDOM). It keeps pages that the program can change. If
// the kernel refuses to drop pages, it maps them with their neighbours as before.
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
		if err := pageOut(start, end-start); err != nil {
			return err
		}
	}
	return lines.Err()
}

// pageOut drops a mapping's pages.
func pageOut(start, size uintptr) error {
	if err := advise(start, size, unix.MADV_RANDOM); err != nil {
		return err
	}
	if err := advise(start, size, unix.MADV_PAGEOUT); err != nil {
		return errors.Join(err, advise(start, size, unix.MADV_NORMAL))
	}
	return nil
}

func advise(start, size, advice uintptr) error {
	if _, _, code := unix.Syscall(unix.SYS_MADVISE, start, size, advice); code != 0 {
		return fmt.Errorf("madvise %d: %w", advice, code)
	}
	return nil
}
