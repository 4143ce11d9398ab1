package registration_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi/registration"
)

// plugin is a plugin that registers.
type plugin struct {
	registerapi.UnimplementedRegistrationServer
}

func (plugin) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: "gpu.example.com", SupportedVersions: []string{"v1.DRAPlugin"}}, nil
}

func (plugin) NotifyRegistrationStatus(context.Context, *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}

// A plugin registers by its socket in the directory.
func ExampleWatcher() {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "gpu.sock"))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, plugin{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	ctx, cancel := context.WithCancel(context.Background())
	w := registration.Watcher{
		Directory: dir, Root: dir, Type: registerapi.DRAPlugin,
		Register: func(_ context.Context, p registration.Plugin) error {
			fmt.Println(p.Name, p.Versions, filepath.Base(p.Endpoint))
			cancel()
			return nil
		},
		Removed: func(string) {},
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: gpu.example.com [v1.DRAPlugin] gpu.sock
}
