package container_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMountsInAUserNamespace(t *testing.T) {
	in := fullInput()
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	groups := []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}
	in.Mounts = []*runtimeapi.Mount{{HostPath: "/h", ContainerPath: "/c", Readonly: true}}
	in.UserNamespace = &runtimeapi.UserNamespace{Uids: ids, Gids: groups}
	in.Pod.Spec.HostUsers = ptr(false)
	want := &runtimeapi.Mount{HostPath: "/h", ContainerPath: "/c", Readonly: true, UidMappings: ids, GidMappings: groups}
	if got := mustConfig(t, in).Mounts; len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(in.Mounts[0].UidMappings) > 0 {
		t.Error("the mount given was written to")
	}
	in.Pod.Spec.HostUsers = nil
	if got := mustConfig(t, in).Mounts; len(got) != 1 || got[0] != in.Mounts[0] {
		t.Errorf("%v, want it as it is in a pod without a user namespace", got)
	}
}
