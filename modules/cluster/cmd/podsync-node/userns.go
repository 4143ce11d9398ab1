package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/syncpod/userns"
)

// subordinateUser is the user whose subordinate IDs pods get, as with a kubelet.
const subordinateUser = "kubelet"

// getSubIDsTimeout limits getsubids, which may ask a server for the IDs.
const getSubIDsTimeout = 30 * time.Second

// namespaces allocates the user IDs of pods with user namespaces. It uses the subordinate IDs of the user kubelet. If
// the machine lacks that user or the program getsubids, it uses all IDs except those of the node's users.
func (a *agent) namespaces(ctx context.Context, maxPods int64) (*userns.Allocator, error) {
	var ids userns.IDs
	if n := a.kubelet.UserNamespaces; n != nil && n.IDsPerPod != nil {
		ids.PerPod = uint32(*n.IDsPerPod) // the configuration has been checked
	}
	if err := subordinateIDs(ctx, &ids); err != nil {
		return nil, fmt.Errorf("subordinate IDs of the user %s: %w", subordinateUser, err)
	}
	pods, err := ids.Pods()
	if err != nil {
		return nil, fmt.Errorf("user namespaces: %w", err)
	}
	if int64(pods) < maxPods {
		return nil, fmt.Errorf("user namespaces: there are IDs for %d pods, and maxPods is %d", pods, maxPods)
	}
	return userns.New(userns.Config{Dir: filepath.Join(a.root, "pods"), IDs: ids, Runtime: a.runtime})
}

// subordinateIDs sets the user's subordinate IDs, if there are any.
func subordinateIDs(ctx context.Context, ids *userns.IDs) error {
	_, err := user.Lookup(subordinateUser)
	if errors.As(err, new(user.UnknownUserError)) {
		return nil
	}
	if err != nil {
		return err
	}
	program, err := exec.LookPath("getsubids")
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, getSubIDsTimeout)
	defer cancel()
	users, err := exec.CommandContext(ctx, program, subordinateUser).Output()
	if err != nil {
		return fmt.Errorf("getsubids: %w", err)
	}
	groups, err := exec.CommandContext(ctx, program, "-g", subordinateUser).Output()
	if err != nil {
		return fmt.Errorf("getsubids -g: %w", err)
	}
	if !bytes.Equal(users, groups) {
		return errors.New("those of users and of groups differ")
	}
	ids.First, ids.Count, err = parseSubordinateIDs(string(users))
	return err
}

// parseSubordinateIDs parses the output of getsubids: "0: kubelet 65536 7208960".
func parseSubordinateIDs(text string) (first, count uint32, err error) {
	fields := strings.Fields(text)
	if len(fields) != 4 || strings.Contains(strings.TrimSpace(text), "\n") {
		return 0, 0, fmt.Errorf("getsubids prints %d words, want one line with one range", len(fields))
	}
	for i, n := range []*uint32{&first, &count} {
		parsed, err := strconv.ParseUint(fields[2+i], 10, 32)
		if err != nil || parsed == 0 {
			return 0, 0, fmt.Errorf("getsubids prints %q, want a number of IDs above 0", fields[2+i])
		}
		*n = uint32(parsed)
	}
	return first, count, nil
}
