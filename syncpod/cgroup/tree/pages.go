package tree

import (
	"context"
	"os"
	"path"
	"strings"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// hugetlb is the controller of huge pages. Systemd does not support it, so the Tree writes its files directly.
const hugetlb = "hugetlb"

// writePages writes the limits of huge pages of a slice. With version 1 the slice has no cgroup in the controller's tree before that,
// and with version 2 the controller is off.
func (t *Tree) writePages(ctx context.Context, mount *os.Root, at string, r cgroup.Resources, h how) error {
	tree := t.kernel.controllers[hugetlb]
	if tree == "" {
		return nil
	}
	above := "/"
	for element := range strings.SplitSeq(strings.Trim(at, "/"), "/") {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.makeIn(mount, tree, path.Join(above, element)); err != nil {
			return err
		}
		above = path.Join(above, element)
	}
	for _, s := range cgroup.Settings(r, t.kernel.version, t.kernel.pages, h.pod) {
		if s.Controller != hugetlb {
			continue
		}
		if err := t.write(mount, at, s); err != nil {
			return err
		}
	}
	return nil
}
