package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/volume"
)

// folders provides the volumes of claims as directories below its path, one for each claim.
type folders string

func (f folders) Provides(vol *v1.Volume) bool { return vol.PersistentVolumeClaim != nil }

func (f folders) SetUp(_ context.Context, pod *v1.Pod, vol *v1.Volume, _ string) error {
	if err := os.MkdirAll(f.of(pod, vol), 0o750); err != nil {
		return &volume.Error{Volume: vol.Name, Kind: "persistentVolumeClaim", Pod: pod.Namespace + "/" + pod.Name, Err: err}
	}
	return nil
}

func (f folders) Locate(pod *v1.Pod, vol *v1.Volume, _ string) (volume.Location, error) {
	return volume.Location{Path: f.of(pod, vol), ReadOnly: vol.PersistentVolumeClaim.ReadOnly}, nil
}

func (f folders) TearDown(context.Context, types.UID, string) error { return nil } // a directory is not mounted

func (f folders) of(pod *v1.Pod, vol *v1.Volume) string {
	return filepath.Join(string(f), pod.Namespace, vol.PersistentVolumeClaim.ClaimName)
}

// A Plugin is syncpod.Extensions.Volumes of an agent.
func ExamplePlugin() {
	dir, err := os.MkdirTemp("", "claims")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var plugin volume.Plugin = folders(dir)
	pod := &v1.Pod{}
	pod.Namespace, pod.Name = "shop", "db-0"
	vol := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}}
	if err := plugin.SetUp(context.Background(), pod, vol, "/var/lib/agent/pods/1"); err != nil {
		fmt.Println(err)
		return
	}
	at, err := plugin.Locate(pod, vol, "/var/lib/agent/pods/1")
	if err != nil {
		fmt.Println(err)
		return
	}
	below, err := filepath.Rel(dir, at.Path)
	fmt.Println(below, err)
	// Output: shop/data-db-0 <nil>
}
