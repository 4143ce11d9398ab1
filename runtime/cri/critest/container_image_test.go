package critest

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A present image can be mounted, by its name or its ID.
func TestMountedImage(t *testing.T) {
	onBubble(t, Config{Images: []Image{{Name: "app"}, {Name: "data", ID: "sha256:d"}}}, func(n *node) {
		sandbox := loggingSandbox(n, "")
		for _, name := range []string{"data", "sha256:d"} {
			_, err := withMounts(n, sandbox, []string{"true"}, "", &runtimeapi.Mount{ContainerPath: "/data", Image: &runtimeapi.ImageSpec{Image: name}})
			n.ok(err)
		}
		_, err := withMounts(n, sandbox, []string{"true"}, "", &runtimeapi.Mount{ContainerPath: "/data", Image: &runtimeapi.ImageSpec{Image: "none"}})
		n.code(err, codes.NotFound)
	})
}

// A container's status reports its user if the user is a number.
func TestUserOfAContainer(t *testing.T) {
	images := []Image{{Name: "root"}, {Name: "number", User: "101:7"}, {Name: "named", User: "nobody"}}
	onBubble(t, Config{Images: images}, func(n *node) {
		sandbox := loggingSandbox(n, "")
		for _, tt := range []struct {
			image    string
			security *runtimeapi.LinuxContainerSecurityContext
			want     *runtimeapi.LinuxContainerUser
		}{
			{"root", nil, &runtimeapi.LinuxContainerUser{}},
			{"number", nil, &runtimeapi.LinuxContainerUser{Uid: 101}},
			{"named", nil, nil},
			{"named", &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{Value: 5}, RunAsGroup: &runtimeapi.Int64Value{Value: 6}, SupplementalGroups: []int64{7},
			}, &runtimeapi.LinuxContainerUser{Uid: 5, Gid: 6, SupplementalGroups: []int64{7}}},
			{"root", &runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "nobody"}, nil},
		} {
			made, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
				PodSandboxId: sandbox, SandboxConfig: podConfig("uid"),
				Config: &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(len(n.containers()))},
					Image:    &runtimeapi.ImageSpec{Image: tt.image}, Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: tt.security},
				},
			})
			n.ok(err)
			resp, err := n.rt.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: made.GetContainerId()})
			n.ok(err)
			got := resp.GetStatus().GetUser().GetLinux()
			if (got == nil) != (tt.want == nil) || got.GetUid() != tt.want.GetUid() || got.GetGid() != tt.want.GetGid() ||
				!slices.Equal(got.GetSupplementalGroups(), tt.want.GetSupplementalGroups()) {
				n.Errorf("%s: %v, want %v", tt.image, got, tt.want)
			}
		}
	})
}
