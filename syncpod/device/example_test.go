package device_test

import (
	"context"
	"fmt"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/device"
)

// serials gives containers that ask for one a serial port of the node.
type serials struct{ free []string }

func (s *serials) Allocate(_ context.Context, _ *v1.Pod, c *v1.Container) (device.Allocation, error) {
	if len(c.Resources.Limits) == 0 {
		return device.Allocation{}, nil
	}
	port := s.free[0]
	s.free = s.free[1:]
	return device.Allocation{Devices: []device.Device{{HostPath: port, ContainerPath: "/dev/serial", Permissions: "rw"}}}, nil
}

func (s *serials) Release(context.Context, types.UID) error { return nil }

// A container has the same port for as long as its pod lives.
func ExampleKeeper() {
	dir, err := os.MkdirTemp("", "devices")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	keeper, err := device.New(device.Config{State: dir, Allocator: &serials{free: []string{"/dev/ttyS0", "/dev/ttyS1"}}})
	if err != nil {
		log.Fatal(err)
	}
	pod := &v1.Pod{}
	pod.UID = "uid"
	modem := &v1.Container{Name: "modem", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/serial": {}}}}
	for range 2 {
		given, err := keeper.Allocate(context.Background(), pod, modem)
		fmt.Println(given.Devices, err)
	}
	// Output:
	// [{/dev/ttyS0 /dev/serial rw}] <nil>
	// [{/dev/ttyS0 /dev/serial rw}] <nil>
}
