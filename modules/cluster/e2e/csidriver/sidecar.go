//go:build linux

package main

import (
	"context"
	"log"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
)

// pause is the time between two rounds of a controller.
const pause = time.Second

// A sidecar is a controller beside a driver.
type sidecar struct {
	kube   *kube
	driver csipb.ControllerClient
	name   string
	fsType string // the default file system
}

// runSidecar calls a controller's round once a second.
func runSidecar(ctx context.Context, args []string, round func(ctx context.Context, s *sidecar) error) error {
	flags := newFlags("sidecar")
	address := flags.String("csi-address", "", "the driver's socket")
	fsType := flags.String("default-fstype", "", "the file system of volumes whose class names none")
	flags.String("feature-gates", "", "ignored")
	flags.String("worker-threads", "", "ignored")
	if err := flags.Parse(args); err != nil {
		return err
	}
	api, err := newKube()
	if err != nil {
		return err
	}
	conn, err := dial(*address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	s := &sidecar{kube: api, driver: csipb.NewControllerClient(conn), fsType: *fsType}
	if s.name, err = driverName(ctx, conn); err != nil {
		return err
	}
	for {
		if err := round(ctx, s); err != nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// capability describes how a volume is used.
func capability(mode *v1.PersistentVolumeMode, fsType string) *csipb.VolumeCapability {
	c := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: fsType}},
	}
	if isBlock(mode) {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
	}
	return c
}

func isBlock(mode *v1.PersistentVolumeMode) bool {
	return mode != nil && *mode == v1.PersistentVolumeBlock
}
