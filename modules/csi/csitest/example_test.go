package csitest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/podsync/podsync/modules/csi/csitest"
)

// A Driver rejects and records each call that breaks a rule of CSI. Here a volume is published before it is staged.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	driver := csitest.New(csitest.Config{})

	_, _ = driver.NodePublishVolume(context.Background(), &csipb.NodePublishVolumeRequest{
		VolumeId: "disk-1", TargetPath: filepath.Join(dir, "mount"), VolumeCapability: &csipb.VolumeCapability{},
	})
	for _, call := range driver.Calls() {
		fmt.Println(call.Method, call.Volume, call.Code)
	}
	fmt.Println("violations:", len(driver.Violations()))
	// Output:
	// NodePublish disk-1 FailedPrecondition
	// violations: 1
}
