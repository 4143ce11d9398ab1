package critest

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestCompleteName(t *testing.T) {
	for name, want := range map[string]string{
		"nginx":                       "docker.io/library/nginx:latest",
		"nginx:1":                     "docker.io/library/nginx:1",
		"team/app":                    "docker.io/team/app:latest",
		"localhost/app":               "localhost/app:latest",
		"reg:5000/app":                "reg:5000/app:latest",
		"reg.io/a/b:2":                "reg.io/a/b:2",
		"app@sha256:00":               "docker.io/library/app@sha256:00",
		"reg.io/app:1@sha256:00":      "reg.io/app:1@sha256:00",
		"docker.io/library/nginx:1.2": "docker.io/library/nginx:1.2",
	} {
		if got := completeName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	images := []Image{{Name: "nginx", User: "101:101", Size: 7}, {Name: "reg.io/app:2", User: "nobody", Pinned: true}}
	onBubble(t, Config{Images: images}, func(n *node) {
		find := func(ref string) *runtimeapi.Image {
			resp, err := n.img.ImageStatus(n.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}, Verbose: true})
			n.ok(err)
			return resp.GetImage()
		}
		nginx, app := find("nginx"), find("reg.io/app:2")
		if nginx.GetUid().GetValue() != 101 || nginx.GetUsername() != "" || nginx.GetSize() != 7 || app.GetUid() != nil || app.GetUsername() != "nobody" || !app.GetPinned() {
			n.Errorf("%v, want Value 101 and Username %q and Size 7 and no app.GetUid() and Username %q and app.GetPinned()\n%v", nginx, "", "nobody", app)
		}
		if find(nginx.GetId()).GetId() != nginx.GetId() || find(nginx.GetRepoDigests()[0]).GetId() != nginx.GetId() || find("reg.io/app:3") != nil || find("") != nil {
			n.Error("found otherwise")
		}
		list, err := n.img.ListImages(n.Context(), &runtimeapi.ListImagesRequest{Filter: &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: "nginx"}}})
		n.ok(err)
		fs, err := n.img.ImageFsInfo(n.Context(), &runtimeapi.ImageFsInfoRequest{})
		n.ok(err)
		if len(list.GetImages()) != 1 || fs.GetImageFilesystems()[0].GetUsedBytes().GetValue() != 7+1<<20 {
			n.Errorf("%v, %v, want 1 of them and Value %v", list, fs, 7+1<<20)
		}
		_, err = n.img.RemoveImage(n.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: nginx.GetId()}})
		n.ok(err)
		if find("nginx") != nil {
			n.Error("it is still there")
		}
	})
}
