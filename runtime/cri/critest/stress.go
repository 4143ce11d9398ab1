package critest

import (
	"context"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// stress is the program with that name: it reports memory as used until it is stopped. If the memory exceeds
// the container's limit, the whole container is OOMKilled, as on a node with cgroup v2.
func (s service) stress(c *container) sh.Program {
	return func(ctx context.Context, call *sh.Call) int {
		used, err := stressBytes(call.Args[1:])
		if err != nil {
			fmt.Fprintf(call.Stderr, "stress: FAIL: %v\n", err)
			return 1
		}
		if used == 0 {
			return untilStopped(ctx, call)
		}
		s.mu.Lock()
		before := c.usage.MemoryBytes
		c.usage.MemoryBytes = used
		limit := c.resources.GetMemoryLimitInBytes()
		killed := limit > 0 && used > uint64(limit) && c.running && c.ended == nil
		if killed {
			c.ended = &Exit{Code: 128 + int32(sh.SIGKILL), Reason: "OOMKilled"}
		}
		p := c.process
		s.mu.Unlock()
		if killed {
			p.Signal(sh.SIGKILL)
		}
		code := untilStopped(ctx, call)
		s.mu.Lock()
		defer s.mu.Unlock()
		c.usage.MemoryBytes = before
		return code
	}
}

// untilStopped waits for a signal, and returns its exit code.
func untilStopped(ctx context.Context, c *sh.Call) int {
	select {
	case n := <-c.Signals:
		return 128 + n
	case <-ctx.Done():
		return 0
	}
}

// stressBytes returns the memory in arguments such as --vm 2 --vm-bytes 150M. Other options have no effect.
func stressBytes(args []string) (uint64, error) {
	workers, size := uint64(0), uint64(256<<20)
	for i, arg := range args {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		var err error
		switch arg {
		case "-m", "--vm":
			workers, err = strconv.ParseUint(value, 10, 16)
		case "--vm-bytes":
			size, err = parseSize(value)
		}
		if err != nil {
			return 0, fmt.Errorf("%s %q is not a number", arg, value)
		}
	}
	if over, all := bits.Mul64(workers, size); over == 0 {
		return all, nil
	}
	return 0, fmt.Errorf("--vm %d with --vm-bytes %d exceeds all memory", workers, size)
}

// parseSize parses a number of bytes with the units of stress.
func parseSize(text string) (uint64, error) {
	number := strings.TrimRight(text, "BKMGbkmg")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || len(text)-len(number) > 1 {
		return 0, strconv.ErrSyntax
	}
	switch strings.ToUpper(text[len(number):]) {
	case "K":
		n <<= 10
	case "M":
		n <<= 20
	case "G":
		n <<= 30
	}
	return n, nil
}
