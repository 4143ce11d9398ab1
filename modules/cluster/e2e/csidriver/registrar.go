//go:build linux

package main

import (
	"context"
	"log"
	"path/filepath"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// runRegistrar serves a driver's registration to the node's agent.
func runRegistrar(ctx context.Context, args []string) error {
	flags := newFlags("registrar")
	address := flags.String("csi-address", "", "the driver's socket")
	endpoint := flags.String("kubelet-registration-path", "", "the driver's socket, as the agent sees it")
	directory := flags.String("plugin-registration-path", "/registration", "the directory in which drivers register")
	if err := flags.Parse(args); err != nil {
		return err
	}
	conn, err := dial(*address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	name, err := driverName(ctx, conn)
	if err != nil {
		return err
	}
	listener, err := listen(filepath.Join(*directory, name+"-reg.sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, registrar{name: name, endpoint: *endpoint})
	context.AfterFunc(ctx, server.Stop) // it removes the socket, so the agent deregisters the driver
	return server.Serve(listener)
}

// driverName asks a driver for its name, until the driver answers.
func driverName(ctx context.Context, conn *grpc.ClientConn) (string, error) {
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		info, err := csipb.NewIdentityClient(conn).GetPluginInfo(call, &csipb.GetPluginInfoRequest{}, grpc.WaitForReady(true))
		cancel()
		if err == nil {
			return info.GetName(), nil
		}
		log.Printf("GetPluginInfo: %v", err)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// A registrar answers the node's agent.
type registrar struct {
	registerapi.UnimplementedRegistrationServer
	name, endpoint string
}

func (r registrar) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus ends the program if the agent has refused the driver: the container restarts and tries again.
func (registrar) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		log.Fatalf("the agent refused the driver: %s", s.GetError())
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
