package csi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// defaultFS is the file system that the agent makes on an empty device if the PersistentVolume names none.
	defaultFS = "ext4"
	// emptyStart is how many bytes at a device's start must be zero before the agent makes a file system.
	emptyStart = 1 << 20
	// diskTimeout is how long a step waits for the programs that check, make or expand a file system.
	diskTimeout = 30 * time.Minute
	// exitDelay limits the wait for a child that keeps the output open after the program has ended.
	exitDelay = 2 * time.Second
	// nothingFound is blkid's exit code for a device without a file system, and errorsLeft fsck's exit code for
	// a file system that it could not repair.
	nothingFound, errorsLeft = 2, 4
)

// extFS are one file system's versions: a newer driver mounts an older version. commonFS are mounted without fsType.
var (
	extFS    = map[string]bool{"ext2": true, "ext3": true, "ext4": true}
	commonFS = map[string]bool{"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "vfat": true}
)

// fsName matches a file system's name, which is part of a program's name.
var fsName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)

// isDevice reports whether a path is a block device.
func isDevice(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return hasType(info.Mode(), v1.HostPathBlockDev), nil
}

// mountDevice mounts a block device's file system.
func mountDevice(ctx context.Context, s *source, path string) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	device, err := filepath.EvalSymlinks(s.Path) // once: the link may move to another disk
	if err != nil {
		return notStarted{err}
	}
	format, err := formatOf(ctx, device)
	if err != nil {
		return notStarted{err}
	}
	kind, err := kindOf(s.FSType, format)
	if err != nil {
		return notStarted{err}
	}
	options := strings.Join(s.MountOptions, ",")
	readOnly := s.ReadOnly || slices.Contains(strings.Split(options, ","), "ro")
	if err := prepare(ctx, device, kind, format == "", readOnly); err != nil {
		return notStarted{err}
	}
	args := []string{"-t", kind}
	if options != "" {
		args = append(args, "-o", options)
	}
	_, err = run(ctx, "mount", append(args, device, path)...)
	return err
}

// prepare makes a file system on an empty device, and repairs the file system of any other with fsck. It writes nothing
// to a read-only volume's device.
func prepare(ctx context.Context, device, kind string, empty, readOnly bool) error {
	switch {
	case empty && readOnly:
		return fmt.Errorf("%s has no file system, and the volume is read-only", device)
	case empty:
		return makeFS(ctx, device, kind)
	case readOnly:
		return nil
	}
	return repair(ctx, device)
}

// kindOf returns the file system type to mount: format, which is the type on the device, or the type to make if the
// device is empty. Without fsType it accepts only common types: a container could otherwise write an image that attacks a
// rarely tested file system driver of the kernel.
func kindOf(fsType, format string) (string, error) {
	if fsType != "" && !fsName.MatchString(fsType) {
		return "", fmt.Errorf("fsType %q is not the name of a file system", fsType)
	}
	switch {
	case format == "":
		return cmp.Or(fsType, defaultFS), nil
	case fsType == "" && !commonFS[format]:
		return "", fmt.Errorf("the device has %q, which is mounted only if the PersistentVolume names it as fsType", format)
	case fsType != "" && fsType != format && !(extFS[fsType] && extFS[format]):
		return "", fmt.Errorf("the device has %q, and the PersistentVolume has fsType %q", format, fsType)
	}
	return cmp.Or(fsType, format), nil
}

// formatOf returns a device's file system, "" if blkid finds nothing on it. A partition table is an error.
func formatOf(ctx context.Context, device string) (string, error) {
	text, err := run(ctx, "blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
	if exitCode(err) == nothingFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		found[key] = value
	}
	if found["TYPE"] == "" {
		return "", fmt.Errorf("%s has no file system, but a partition table (%s)", device, found["PTTYPE"])
	}
	return found["TYPE"], nil
}

// makeFS makes a file system on a device. It refuses a device that does not begin with zeros: blkid does not know the
// formats of all databases, and finds nothing on a device that it cannot read.
func makeFS(ctx context.Context, device, kind string) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	start, err := io.ReadAll(io.LimitReader(f, emptyStart))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if len(start) == 0 || len(bytes.TrimLeft(start, "\x00")) > 0 {
		return fmt.Errorf("%s has no file system and is not empty: make a file system on it, or fill its first MiB with zeros", device)
	}
	var args []string
	switch kind {
	case "ext3", "ext4":
		args = []string{"-F", "-m0"} // it may be a whole disk, and root needs no reserve
	case "xfs":
		args = []string{"-f"}
	}
	_, err = run(ctx, "mkfs."+kind, append(args, device)...)
	return err
}

// repair repairs a device's file system. It returns an error only if fsck found errors that it could not repair.
func repair(ctx context.Context, device string) error {
	if _, err := run(ctx, "fsck", "-a", device); exitCode(err) == errorsLeft {
		return err
	}
	return ctx.Err()
}

// growFS expands the file system on a device that is mounted at path.
func growFS(ctx context.Context, device, path string) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	format, err := formatOf(ctx, device)
	if err != nil {
		return notStarted{err}
	}
	switch {
	case extFS[format]:
		_, err = run(ctx, "resize2fs", device)
	case format == "xfs":
		_, err = run(ctx, "xfs_growfs", path)
	default:
		err = notStarted{fmt.Errorf("a file system of type %q cannot be expanded", format)}
	}
	return err
}

// run runs a program and returns its output, which is also part of the error. When ctx ends, run returns an error and does
// not kill the program: a killed mkfs or fsck leaves a damaged file system, and the kernel does not kill a program while it
// waits for a disk.
func run(ctx context.Context, name string, args ...string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	command := exec.Command(name, args...)
	command.WaitDelay = exitDelay
	var output firstBytes
	command.Stdout, command.Stderr = &output, &output
	line := strings.Join(command.Args, " ")
	ended := make(chan error, 1)
	go func() { ended <- command.Run() }()
	select {
	case err := <-ended:
		if err != nil {
			return "", fmt.Errorf("%s: %w: %s", line, err, foreign.CutText(strings.TrimSpace(string(output)), maxMessage))
		}
		return string(output), nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s has not ended: %w", line, ctx.Err())
	}
}

// exitCode returns the exit code of the program that failed with err, -1 if it did not run to its end.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// firstBytes stores the first bytes that are written to it, and drops the others.
type firstBytes []byte

func (b *firstBytes) Write(text []byte) (int, error) {
	*b = append(*b, text[:min(len(text), maxMessage-len(*b))]...)
	return len(text), nil
}
