package devices_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// modems is a device plugin for a node with two modems. A real plugin is a program of its own, and usually runs in a
// pod.
type modems struct {
	pluginapi.UnimplementedDevicePluginServer
}

func (modems) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (modems) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{{ID: "ttyS0", Health: pluginapi.Healthy}, {ID: "ttyS1", Health: pluginapi.Healthy}}})
	<-stream.Context().Done()
	return err
}

func (modems) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	id := req.ContainerRequests[0].DevicesIds[0]
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{
		Envs:    map[string]string{"MODEM": id},
		Devices: []*pluginapi.DeviceSpec{{HostPath: "/dev/" + id, ContainerPath: "/dev/modem", Permissions: "rw"}},
	}}}, nil
}

// serve serves the plugin in the directory, and registers it with the manager. A plugin registers once the manager's
// socket exists, and again each time the manager recreates the socket.
func (p modems) serve(ctx context.Context, dir string) error {
	for {
		if _, err := os.Stat(filepath.Join(dir, "kubelet.sock")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "modems.sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, server.Stop)
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: "modems.sock", ResourceName: "example.com/modem",
	}, grpc.WaitForReady(true))
	return err
}

// An agent whose pods use the devices of a plugin. The runtime is in memory, so that the example runs anywhere; the code
// for a real runtime is the same.
func ExampleManager() {
	dir, err := os.MkdirTemp("", "devices")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	node, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := node.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	// By default the directory is /var/lib/kubelet/device-plugins, where plugins expect it.
	manager, err := devices.New(devices.Config{State: filepath.Join(dir, "state"), Directory: dir})
	if err != nil {
		log.Fatal(err)
	}
	statuses := make(chan v1.PodStatus, 100)
	pods := source.NewPush()
	agent, err := agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: filepath.Join(dir, "root"), Sources: []source.Source{pods},
		Admission:  manager, // rejects pods for which there are too few devices
		NoEviction: true,    // pods in memory do not fill the disk of the test machine
		Sync: syncpod.Config{
			RuntimeName: "critest", // cri.Dial would ask the runtime
			Extensions:  syncpod.Extensions{Devices: manager},
			Node:        syncpod.Node{LogsRoot: filepath.Join(dir, "logs")},
			Sink: syncpod.StatusSinkFunc(func(_ context.Context, _ *v1.Pod, s v1.PodStatus) error {
				statuses <- s
				return nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() {
		if err := manager.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	if err := (modems{}).serve(ctx, dir); err != nil {
		log.Fatal(err)
	}
	for all := int64(0); all < 2; { // an agent would copy this to the status of its Node
		capacity, _ := manager.Capacity()
		count := capacity["example.com/modem"]
		all = count.Value()
		time.Sleep(10 * time.Millisecond)
	}
	running.Go(func() { _ = agent.Run(ctx) })

	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "sms", "1"
	pod.Spec.Containers = []v1.Container{{
		Name: "app", Image: "registry.test/sms:1", Command: []string{"sleep", "600"},
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/modem": resource.MustParse("1")}},
	}}
	if err := pods.Set(pod); err != nil {
		log.Fatal(err)
	}
	for s := range statuses {
		if s.Phase == v1.PodRunning {
			given := s.ContainerStatuses[0].AllocatedResourcesStatus[0]
			fmt.Println(s.Phase, "with", given.Name, given.Resources[0].ResourceID, given.Resources[0].Health)
			break
		}
	}
	for _, call := range node.Journal().Of(critest.CreateContainer) {
		config := call.Request().(*runtimeapi.CreateContainerRequest).Config
		fmt.Println(config.Devices[0].HostPath, "is", config.Devices[0].ContainerPath)
	}
	// Output:
	// Running with example.com/modem ttyS0 Healthy
	// /dev/ttyS0 is /dev/modem
}
