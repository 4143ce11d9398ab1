package critest

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A present image can be mounted, by its name or its ID. Its files are read-only.
func TestMountedImage(t *testing.T) {
	images := []Image{
		{Name: "app", Files: map[string]string{"/srv/own": "o", "/srv/data/hidden": "h"}},
		{Name: "data", ID: "sha256:d", Files: map[string]string{"/a": "1", "/models/b": "2"}},
	}
	mount := func(image, below string) *runtimeapi.Mount {
		return &runtimeapi.Mount{ContainerPath: "/srv/data", Image: &runtimeapi.ImageSpec{Image: image}, ImageSubPath: below, Readonly: true}
	}
	onHost, writable := mount("data", ""), mount("data", "")
	onHost.HostPath, writable.Readonly = "/srv", false
	for _, tt := range []struct {
		like  Model
		mount *runtimeapi.Mount
		code  codes.Code
		files string
	}{
		{mount: mount("data", ""), files: "/srv: data own /srv/data: a models"},
		{mount: mount("sha256:d", "models"), files: "/srv: data own /srv/data: b"},
		{mount: mount("none", ""), code: codes.NotFound},
		{mount: mount("data", "none"), code: codes.Unknown},
		{mount: mount("data", "a"), code: codes.Unknown},
		{mount: onHost, code: codes.Unknown},
		{mount: writable, code: codes.Unknown},
		{like: Containerd16, mount: mount("data", ""), code: codes.Unknown},
	} {
		onBubble(t, Config{Like: tt.like, Images: images}, func(n *node) {
			id, err := withMounts(n, loggingSandbox(n, ""), []string{"sleep", "infinity"}, "", tt.mount)
			if tt.code != codes.OK {
				n.code(err, tt.code)
				return
			}
			n.ok(err)
			st, err := n.inspect(id)
			n.ok(err)
			if ref := st.GetMounts()[0].GetImage().GetImageRef(); ref != "sha256:d" {
				n.Errorf("the status has the reference %q of the mounted image", ref)
			}
			got, err := n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{
				ContainerId: id, Cmd: script("echo $(ls /srv /srv/data); touch /srv/data/new || rm /srv/data/* || mkdir /srv/data/new && exit 9; touch /srv/new"),
			})
			n.ok(err)
			if files := strings.TrimSpace(string(got.GetStdout())); files != tt.files || got.GetExitCode() != 0 {
				n.Errorf("%v: files %q, exit code %d %s, want files %q", tt.mount, files, got.GetExitCode(), got.GetStderr(), tt.files)
			}
		})
	}
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
