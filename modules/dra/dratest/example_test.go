package dratest_test

import (
	"context"
	"fmt"
	"log"

	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/podsync/podsync/modules/dra/dratest"
)

// A driver can be called without a socket.
func ExampleDriver() {
	driver := &dratest.Driver{Name: "gpu.example.com"}
	resp, err := driver.NodePrepareResources(context.Background(), &drav1.NodePrepareResourcesRequest{Claims: []*drav1.Claim{{Uid: "1"}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Claims["1"].Devices[0].CdiDeviceIds, driver.Prepared())
	// Output: [gpu.example.com/device=1] [1]
}
