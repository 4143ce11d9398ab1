package critest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
			n.Errorf("nginx is %v, want UID 101, no user name and size 7; app is %v, want user name %q, no UID, and pinned", nginx, app, "nobody")
		}
		if find(nginx.GetId()).GetId() != nginx.GetId() || find(nginx.GetRepoDigests()[0]).GetId() != nginx.GetId() || find("reg.io/app:3") != nil || find("") != nil {
			n.Error("found otherwise")
		}
		list, err := n.img.ListImages(n.Context(), &runtimeapi.ListImagesRequest{Filter: &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: "nginx"}}})
		n.ok(err)
		fs, err := n.img.ImageFsInfo(n.Context(), &runtimeapi.ImageFsInfoRequest{})
		n.ok(err)
		if len(list.GetImages()) != 1 || fs.GetImageFilesystems()[0].GetUsedBytes().GetValue() != 7+1<<20 {
			n.Errorf("%v, %v, want one image and %v used bytes", list, fs, 7+1<<20)
		}
		_, err = n.img.RemoveImage(n.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: nginx.GetId()}})
		n.ok(err)
		if find("nginx") != nil {
			n.Error("it is still there")
		}
	})
}

// Images change while the runtime runs, as by ctr images import, tag and rm.
func TestImagesChange(t *testing.T) {
	onBubble(t, Config{Images: []Image{{Name: "app:1", ID: "sha256:a"}}}, func(n *node) {
		want := func(names ...string) {
			n.Helper()
			list, err := n.img.ListImages(n.Context(), &runtimeapi.ListImagesRequest{})
			n.ok(err)
			var got []string
			for _, i := range list.GetImages() {
				got = append(got, i.GetId()+" "+strings.ReplaceAll(strings.Join(i.GetRepoTags(), " "), "docker.io/library/", ""))
			}
			if slices.Sort(got); !slices.Equal(got, names) {
				n.Errorf("the node has %q, want %q", got, names)
			}
		}
		n.ok(n.AddImage(Image{Name: "app:latest", ID: "sha256:a"}))
		want("sha256:a app:1 app:latest")
		n.ok(n.AddImage(Image{Name: "app", ID: "sha256:b"}))
		want("sha256:a app:1", "sha256:b app:latest")
		n.ok(n.AddImage(Image{Name: "app:1", ID: "sha256:b"}))
		want("sha256:a ", "sha256:b app:1 app:latest") // as the image of an older pull, which a collector can remove
		n.ok(n.Untag("app"))
		want("sha256:a ", "sha256:b app:1")
		for _, err := range []error{n.Untag("app"), n.AddImage(Image{}), n.Publish(RemoteImage{}), n.Publish(RemoteImage{Image: Image{Name: "app"}, PullTime: -1})} {
			if err == nil {
				n.Error("no error")
			}
		}
	})
}

// A pull fails with containerd's error for the registry's answer.
func TestRegistryAnswers(t *testing.T) {
	sha := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	onBubble(t, Config{}, func(n *node) {
		for _, tt := range []struct {
			image RemoteImage
			pull  string
			code  codes.Code
			text  string
		}{
			{RemoteImage{Status: 401}, "r.io/a:1", codes.Unknown, "failed to authorize: failed to fetch anonymous token: unexpected status from GET request"},
			{RemoteImage{Status: 403}, "r.io/a:1", codes.Unknown, "pull access denied"},
			{RemoteImage{Status: 404}, "r.io/a:1", codes.NotFound, "r.io/a:1: not found"},
			{RemoteImage{Status: 429}, "r.io/a:1", codes.Unknown, "HEAD request to https://r.io/v2/a/manifests/1: 429 Too Many Requests"},
			{RemoteImage{Status: 503, PullTime: time.Hour}, "r.io/a:1", codes.Unknown, "503 Service Unavailable"},
			{RemoteImage{Image: Image{Digest: sha("b")}}, "r.io/a@" + sha("a"), codes.FailedPrecondition, "unexpected commit digest " + sha("b") + ", expected " + sha("a")},
			{RemoteImage{Image: Image{Digest: sha("a")}}, "r.io/a@" + sha("a"), codes.OK, ""},
			{RemoteImage{}, "r.io/a:1", codes.OK, ""},
		} {
			tt.image.Name = tt.pull
			n.ok(n.Publish(tt.image))
			began := time.Now()
			_, err := n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: tt.pull}})
			if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.text) || time.Since(began) < tt.image.PullTime {
				n.Errorf("%s with %+v: %v after %v, want %v with %q", tt.pull, tt.image, err, time.Since(began), tt.code, tt.text)
			}
		}
	})
}
