package userns_test

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/userns"
)

// A client stands in for a *cri.Client.
type client struct{}

func (client) Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}}}, nil
}

func ExampleAllocator() {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	namespaces, err := userns.New(userns.Config{Dir: dir, Runtime: client{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{Spec: v1.PodSpec{HostUsers: new(false)}}
	pod.UID = "1"
	ns, err := namespaces.UserNamespace(context.Background(), pod, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("root of the pod is user %d of the node, one of %d\n", ns.Uids[0].HostId, ns.Uids[0].Length)
	// Output: root of the pod is user 65536 of the node, one of 65536
}
