package csi_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// folders is a CSI driver whose volumes are directories below it. A real driver is a program of its own.
type folders struct {
	csipb.UnimplementedNodeServer
	registerapi.UnimplementedRegistrationServer
	dir string
}

func (f folders) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: "folders.example.com", SupportedVersions: []string{"1.0.0"}}, nil
}

func (f folders) NotifyRegistrationStatus(context.Context, *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (f folders) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: "this-node"}, nil
}

func (f folders) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	return &csipb.NodeGetCapabilitiesResponse{}, nil
}

func (f folders) NodePublishVolume(_ context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	folder := filepath.Join(f.dir, filepath.Base(req.VolumeId))
	err := errors.Join(os.MkdirAll(folder, 0o755), os.MkdirAll(req.TargetPath, 0o755))
	if err == nil && !isMountPoint(req.TargetPath) {
		err = syscall.Mount(folder, req.TargetPath, "", syscall.MS_BIND, "")
	}
	return &csipb.NodePublishVolumeResponse{}, err
}

func (f folders) NodeUnpublishVolume(_ context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if err := syscall.Unmount(req.TargetPath, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.Remove(req.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// serve serves the driver at a socket in the directory in which drivers register.
func (f folders) serve(ctx context.Context, root string) error {
	registry := filepath.Join(root, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	socket := filepath.Join(registry, "folders.sock")
	_ = os.Remove(socket) // left by a driver that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, f)
	registerapi.RegisterRegistrationServer(server, f)
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// A pod uses a CSI driver without an API server. The runtime is in memory; with a real one the code is the same. The
// example needs the right to mount.
func Example_driver() {
	runExample(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-1"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: "folders.example.com", VolumeHandle: "orders"},
		},
	}}, "/srv/folders", "/var/lib/my-agent")
}

// A pod uses a disk of the node without an API server.
func Example_localDisk() {
	runExample(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-1"}, Spec: v1.PersistentVolumeSpec{
		AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/disks/ssd1"}},
	}}, "", "/var/lib/my-agent")
}

// runExample runs a pod with a volume until the pod is running.
func runExample(pv *v1.PersistentVolume, drive, root string) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if drive != "" {
		running.Go(func() { _ = folders{dir: drive}.serve(ctx, root) })
	}
	statuses := make(chan v1.PodStatus, 100)
	pods := source.NewPush()
	agent, manager, err := newAgent(pv, root, pods, statuses)
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() { _ = manager.Run(ctx) })
	running.Go(func() { _ = agent.Run(ctx) })
	if err := pods.Set(database("1")); err != nil {
		log.Fatal(err)
	}
	for s := range statuses {
		if s.Phase == v1.PodRunning {
			fmt.Println("the database runs")
			return
		}
	}
}

// newAgent returns an agent whose pods find a PersistentVolume under the claim default/data.
func newAgent(pv *v1.PersistentVolume, root string, pods source.Source, statuses chan<- v1.PodStatus) (*agent.Agent, *csi.Manager, error) {
	node, err := critest.New(critest.Config{})
	if err != nil {
		return nil, nil, err
	}
	conn, err := node.Dial()
	if err != nil {
		return nil, nil, err
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: pv.Name}}
	manager, err := csi.New(csi.Config{Root: root, Objects: csi.Static([]*v1.PersistentVolume{pv}, []*v1.PersistentVolumeClaim{claim})})
	if err != nil {
		return nil, nil, err
	}
	agent, err := agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: root, Sources: []source.Source{pods}, NoEviction: true, // the machine of the test may be under pressure
		Sync: syncpod.Config{
			RuntimeName: "critest", // cri.Dial would ask the runtime
			Extensions:  syncpod.Extensions{Volumes: manager},
			Node:        syncpod.Node{LogsRoot: filepath.Join(root, "logs")},
			Sink: syncpod.StatusSinkFunc(func(_ context.Context, _ *v1.Pod, s v1.PodStatus) error {
				statuses <- s
				return nil
			}),
		},
	})
	return agent, manager, err
}

// database returns a pod that uses the claim. Each new pod has a new UID.
func database(uid types.UID) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "database", uid
	pod.Spec.Containers = []v1.Container{{
		Name: "app", Image: "registry.test/database:1", Command: []string{"sleep", "600"}, VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/var/lib/database"}},
	}}
	grace := int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	return pod
}
