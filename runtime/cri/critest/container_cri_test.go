package critest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestShortIDs(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("uid", "sleep", "infinity")
		st, err := n.rt.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id[:13]})
		n.ok(err)
		if st.GetStatus().GetId() != id {
			t.Errorf("got %v, want %v", st.GetStatus().GetId(), id)
		}
		_, err = n.rt.StopPodSandbox(n.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox[:13]})
		n.ok(err)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 137)
	})
}

func TestConfigsThatContainerdRejects(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		for _, m := range []*runtimeapi.Mount{
			{ContainerPath: "/m", RecursiveReadOnly: true},
			{ContainerPath: "/m", RecursiveReadOnly: true, Readonly: true, Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		} {
			_, err := withMounts(n, sandbox, script("true"), "", m)
			n.code(err, codes.InvalidArgument)
		}
		one := []*runtimeapi.IDMapping{{HostId: 1000, Length: 10}}
		for _, o := range []*runtimeapi.UserNamespace{
			{Mode: runtimeapi.NamespaceMode_CONTAINER}, {Mode: runtimeapi.NamespaceMode_POD},
			{Mode: runtimeapi.NamespaceMode_POD, Uids: slices.Concat(one, one), Gids: one},
			{Mode: runtimeapi.NamespaceMode_POD, Uids: []*runtimeapi.IDMapping{{ContainerId: 1, Length: 10}}, Gids: one},
			{Mode: runtimeapi.NamespaceMode_NODE, Uids: one},
		} {
			config := podConfig("other")
			config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{UsernsOptions: o},
			}}
			_, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
			n.code(err, codes.InvalidArgument)
		}
	})
}

func TestFilesOfTheRuntime(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		config := podConfig("uid")
		config.Hostname = "web"
		config.DnsConfig = &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}, Searches: []string{"svc.local"}, Options: []string{"ndots:5"}}
		sb, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
		n.ok(err)
		id, err := withMounts(n, sb.GetPodSandboxId(), script(`
			[ "$(cat /etc/resolv.conf)" = "$(printf 'search svc.local\nnameserver 10.0.0.10\noptions ndots:5')" ] || exit 1
			[ "$(hostname)" = web ] && [ "$(cat /etc/hostname)" = web ] || exit 2
			grep -q web /etc/hosts || exit 3`), "")
		n.ok(err)
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 0)
	})
}

func TestTagsOfOneImage(t *testing.T) {
	sha := "sha256:" + strings.Repeat("a", 64)
	onBubble(t, Config{Images: []Image{{Name: "app:1", ID: sha, Digest: sha, Size: 5}, {Name: "app:2", ID: sha, Digest: sha, Size: 5}}}, func(n *node) {
		list, err := n.img.ListImages(n.Context(), &runtimeapi.ListImagesRequest{})
		n.ok(err)
		if i := list.GetImages(); len(i) != 1 || len(i[0].GetRepoTags()) != 2 || len(i[0].GetRepoDigests()) != 1 {
			t.Errorf("got %v, want one image with two tags and one digest", i)
		}
		used, err := n.img.ImageFsInfo(n.Context(), &runtimeapi.ImageFsInfoRequest{})
		n.ok(err)
		if b := used.GetImageFilesystems()[0].GetUsedBytes().GetValue(); b != 5 {
			t.Errorf("%d bytes are used, want 5", b)
		}
		pulled := "registry.test/other@sha256:" + strings.Repeat("b", 64)
		_, err = n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: pulled}})
		n.ok(err)
		st, err := n.img.ImageStatus(n.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: pulled}})
		n.ok(err)
		if got := st.GetImage(); !slices.Equal(got.GetRepoDigests(), []string{pulled}) || len(got.GetRepoTags()) != 0 {
			t.Errorf("got %v, want the digest that was asked for", got)
		}
	})
}

// The process has the user and the groups of its container, and a root file system that is read-only rejects writes.
func TestUserAndRootOfAProcess(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		for i, tt := range []struct {
			security *runtimeapi.LinuxContainerSecurityContext
			want     string
		}{
			{nil, "0 0 0 root"},
			{&runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: 5}, RunAsGroup: &runtimeapi.Int64Value{Value: 6}, SupplementalGroups: []int64{7}}, "5 6 6 7 5"},
			{&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "nobody", ReadonlyRootfs: true}, "65534 0 0 nobody touch: /x: Read-only file system"},
		} {
			made, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: podConfig("uid"), Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(i)}, Image: &runtimeapi.ImageSpec{Image: "app"},
				Command: script("sleep infinity"), Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: tt.security},
			}})
			n.ok(err)
			_, err = n.rt.StartContainer(n.Context(), &runtimeapi.StartContainerRequest{ContainerId: made.GetContainerId()})
			n.ok(err)
			got, err := n.rt.ExecSync(n.Context(), &runtimeapi.ExecSyncRequest{ContainerId: made.GetContainerId(), Cmd: script("echo $(id -u) $(id -g) $(id -G) $(id -un) $(touch /x 2>&1)")})
			n.ok(err)
			if text := strings.TrimSpace(string(got.GetStdout())); text != tt.want {
				n.Errorf("container %d: %q, want %q", i, text, tt.want)
			}
		}
	})
}

// One line of the log of a server says what the runtime takes its image for.
func TestServersSaySo(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, err := withMounts(n, loggingSandbox(n, "/logs"), nil, "app.log")
		n.ok(err)
		b, err := n.ReadFile("/logs/app.log")
		n.ok(err)
		if !strings.Contains(string(b), "is a server: it answers on all ports until it is stopped") {
			n.Errorf("the log is %q", b)
		}
	})
}
