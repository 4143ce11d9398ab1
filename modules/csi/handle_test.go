package csi_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// V15: several PersistentVolumes may have one handle. Each pod has the volume in the directory of its own PersistentVolume,
// and it is unmounted from there, also by the next agent.
func TestV15_VolumesWithOneHandle(t *testing.T) {
	for name, block := range map[string]bool{"file system": false, "block": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
				var volumes []*v1.PersistentVolume
				for _, name := range []string{"one", "two"} {
					pv := persistent(name, v1.ReadWriteMany)
					pv.Spec.CSI.VolumeHandle = "shared"
					if block {
						mode := v1.PersistentVolumeBlock
						pv.Spec.VolumeMode = &mode
					}
					volumes = append(volumes, pv)
				}
				n.objects = csi.Static(volumes, []*v1.PersistentVolumeClaim{claim("a", "one"), claim("b", "two")})
				n.start()
				of := func(uid string) *v1.Pod {
					p := podOf(uid, uid)
					if block {
						p.Spec.Containers[0].VolumeMounts, p.Spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: "vol", DevicePath: "/dev/data"}}
					}
					return p
				}
				locate := func(uid, volume string) {
					t.Helper()
					p := of(uid)
					n.mustSetUp(p)
					at, err := n.m.Locate(p, &p.Spec.Volumes[0], n.dir(p))
					want := filepath.Join(n.dir(p), "volumes/kubernetes.io~csi", volume, "mount")
					if block {
						want = filepath.Join(n.root, "plugins/kubernetes.io/csi/volumeDevices/publish", volume, uid)
					}
					if err != nil || at.Path != want {
						t.Errorf("%s: %+v, %v, want %s", uid, at, err, want)
					}
				}
				locate("a", "one")
				locate("b", "two")
				locate("a", "one") // a container restarts
				n.start()
				locate("b", "two")
				n.mustTearDown(of("a"))
				n.mustTearDown(of("b"))
				n.settle()
				n.wantNothing()
				n.wantCalls("NodeStage shared OK", "NodePublish shared OK", "NodePublish shared OK", "NodeUnpublish shared OK", "NodeUnpublish shared OK", "NodeUnstage shared OK")
			})
		})
	}
}

// A driver gets the parameters of the pod's own PersistentVolume, also if its volume is published later or again.
func TestV15_ParametersOfThePersistentVolume(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		var volumes []*v1.PersistentVolume
		for _, name := range []string{"one", "two"} {
			pv := persistent(name, v1.ReadWriteMany)
			pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.VolumeAttributes, pv.Spec.CSI.ReadOnly = "shared", map[string]string{"part": name}, name == "two"
			volumes = append(volumes, pv)
		}
		n.objects = csi.Static(volumes, []*v1.PersistentVolumeClaim{claim("a", "one"), claim("b", "two")})
		yes := true
		n.objects.Driver = func(context.Context, string) (*storagev1.CSIDriver, error) {
			return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{RequiresRepublish: &yes}}, nil
		}
		n.driver.Inject(csitest.Fault{Method: "NodeStage", Times: 1, Delay: 5 * time.Second}) // pod b asks while pod a waits
		n.start()
		var both sync.WaitGroup
		for _, uid := range []string{"a", "b"} {
			both.Go(func() {
				if err := n.setUp(t.Context(), podOf(uid, uid)); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
		}
		both.Wait()
		for range 2 { // before and after it is published again
			for _, call := range n.driver.Published() {
				want := map[bool]string{true: "two", false: "one"}[strings.Contains(call.TargetPath, "/pods/b/")]
				if call.VolumeContext["part"] != want || call.Readonly != (want == "two") || !strings.Contains(call.TargetPath, "/"+want+"/") {
					t.Errorf("published at %s with %v, read-only %t", call.TargetPath, call.VolumeContext, call.Readonly)
				}
			}
			time.Sleep(90 * time.Second)
		}
		for _, uid := range []string{"a", "b"} {
			p := podOf(uid, uid)
			if at, err := n.m.Locate(p, &p.Spec.Volumes[0], n.dir(p)); err != nil || at.ReadOnly != (uid == "b") {
				t.Errorf("%s: %+v, %v", uid, at, err)
			}
			n.mustTearDown(p)
		}
		n.settle()
		n.wantNothing()
	})
}

// A pod may have one volume through two claims: both have the same directory.
func TestV15_OnePodWithTwoClaimsOfAVolume(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		one, two := persistent("one", v1.ReadWriteMany), persistent("two", v1.ReadWriteMany)
		one.Spec.CSI.VolumeHandle, two.Spec.CSI.VolumeHandle = "shared", "shared"
		n.objects = csi.Static([]*v1.PersistentVolume{one, two}, []*v1.PersistentVolumeClaim{claim("a", "one"), claim("b", "two")})
		n.start()
		p := podOf("p", "a")
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "again", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "b"}}})
		for i := range p.Spec.Volumes {
			must.Do(t, n.m.SetUp(t.Context(), p, &p.Spec.Volumes[i], n.dir(p)))
		}
		for i := range p.Spec.Volumes {
			at, err := n.m.Locate(p, &p.Spec.Volumes[i], n.dir(p))
			if want := filepath.Join(n.dir(p), "volumes/kubernetes.io~csi/one/mount"); err != nil || at.Path != want {
				t.Errorf("%s: %+v, %v, want %s", p.Spec.Volumes[i].Name, at, err, want)
			}
		}
		n.mustTearDown(p)
		n.settle()
		n.wantNothing()
	})
}
