package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// idle prints the resource usage of an idle agent.
func idle(ctx context.Context, s settings, client *cri.Client, out io.Writer) error {
	a, err := startAgent(s, client)
	if err != nil {
		return err
	}
	defer a.end()
	sh := shape{pods: s.idle}
	if _, err := a.run(ctx, "idle-", sh); err != nil {
		return err
	}
	looking, end := context.WithCancel(ctx)
	defer end()
	if s.everything {
		go scrape(looking, socketOf(a.root()), func(err error) { fmt.Fprintln(out, err) })
	}
	if err := pause(ctx, 30*time.Second); err != nil {
		return err
	}
	before, err := a.cpu()
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(s.minutes*float64(time.Minute))); err != nil {
		return err
	}
	after, err := a.cpu()
	if err != nil {
		return err
	}
	resident, err := a.resident()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d settled pods: %.3f s of CPU a minute, %.1f MB resident\n", s.idle, (after-before)/s.minutes, resident)
	_, err = a.stop(ctx, "idle-", sh)
	return err
}

// cpu returns the CPU time of the agent in seconds. Linux counts it in hundredths.
func (a *agent) cpu() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("/proc: stat is too short")
	}
	user, errUser := strconv.ParseFloat(fields[11], 64)
	system, errSystem := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(errUser, errSystem)
}

// resident returns the memory that the agent has resident, in MB of 10^6 bytes.
func (a *agent) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("/proc: no VmRSS")
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib * 1024 / 1e6, err
}
