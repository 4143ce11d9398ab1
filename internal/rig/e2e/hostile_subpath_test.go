//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// emptyDir returns the path of a pod's emptyDir volume on the node.
func (s *siege) emptyDir(uid types.UID, volume string) string {
	return filepath.Join(s.dir, "root", "pods", string(uid), "volumes", "kubernetes.io~empty-dir", volume)
}

// volumeOfAnother returns where the volume in memory of a pod that does nothing is mounted.
func (s *siege) volumeOfAnother() string {
	for uid := range s.bystanders() {
		return s.emptyDir(uid, "memory")
	}
	return s.canary
}

// mountedBySibling adds a container that has a directory mounted by a subPath, and that starts again and again.
func mountedBySibling(_ *siege, l level, p *v1.Pod) {
	c := attacker(l, "sibling", "dwell")
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "scratch", MountPath: "/mounted", SubPath: "mounted"})
	p.Spec.Containers = append(p.Spec.Containers, c)
}

// movedWhileMounted waits until the attack has renamed the directory, and the container that mounts it was started
// again.
func movedWhileMounted(s *siege, p *v1.Pod) error {
	err := s.until(patience, func() error {
		_, err := os.Lstat(filepath.Join(s.emptyDir(p.UID, "scratch"), "moved"))
		return err
	})
	if err != nil {
		return fmt.Errorf("the directory was not renamed: %w", err)
	}
	return runsAgain(s, p)
}
