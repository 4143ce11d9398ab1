package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/podsync/podsync/runtime/cri"
)

// burst prints the results of an agent that gets many pods at the same time: when they ran, the longest pause between two
// starts, when they were removed, the agent's resource usage in the meantime, and the number of its warnings until the pods
// ran.
func burst(ctx context.Context, s settings, client *cri.Client, out io.Writer) error {
	a, err := startAgent(s, client)
	if err != nil {
		return err
	}
	defer a.end()
	sh := shape{pods: s.burst}
	before, err := a.cpu()
	if err != nil {
		return err
	}
	started, err := a.run(ctx, "burst-", sh)
	if err != nil {
		return err
	}
	running, err := a.cpu()
	if err != nil {
		return err
	}
	resident, err := a.resident()
	if err != nil {
		return err
	}
	output, err := os.ReadFile(filepath.Join(a.dir, "output"))
	if err != nil {
		return err
	}
	stopped, err := a.stop(ctx, "burst-", sh)
	if err != nil {
		return err
	}
	after, err := a.cpu()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d pods at once: start p50 %.1f s, max %.1f s, longest pause %.1f s, %d warnings; stop max %.1f s; agent: start %.1f s of CPU, %.1f MB resident, stop %.1f s of CPU\n",
		s.burst, median(started), slices.Max(started), longestPause(started), bytes.Count(output, []byte("  Warning  ")), slices.Max(stopped),
		running-before, resident, after-running)
	return nil
}

// longestPause is the longest time between two of these times; the first counts from the
// beginning.
func longestPause(times []float64) (longest float64) {
	last := 0.0
	for _, at := range slices.Sorted(slices.Values(times)) {
		longest, last = max(longest, at-last), at
	}
	return longest
}
