package conformance

import (
	"os"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var imageRules = []rule{
	{"image-status", "ImageStatus of an image on the node tells its ID, its size and a name; it is found by its ID as well.", checkImageStatus},
	{"image-absent", "ImageStatus of an image that is not on the node answers without an image and without an error.", checkImageAbsent},
	{"image-list", "ListImages lists an image on the node.", checkImageList},
	{"image-pull-fails", "PullImage of an image that does not exist fails and leaves nothing.", checkPullFails},
	{"image-remove-absent", "RemoveImage of an image that is not on the node succeeds, or fails with NotFound.", checkRemoveAbsent},
	{"image-filesystem", "ImageFsInfo tells the mount point of the images' file system, a directory that is there, or is unimplemented.", checkImageFs},
}

func (b *bench) imageOf(name string) *runtimeapi.Image {
	b.Helper()
	resp, err := b.img.ImageStatus(b.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	b.must(err)
	return resp.GetImage()
}

func checkImageStatus(b *bench) {
	i := b.imageOf(b.cfg.Image)
	if i.GetId() == "" || i.GetSize() == 0 || len(i.GetRepoTags())+len(i.GetRepoDigests()) == 0 {
		b.broken("it tells %v", i)
	}
	if again := b.imageOf(i.GetId()); again.GetId() != i.GetId() {
		b.broken("by its ID %s it finds %v", i.GetId(), again)
	}
}

func checkImageAbsent(b *bench) {
	if i := b.imageOf(b.cfg.Missing); i != nil {
		b.broken("it tells %v", i)
	}
}

func checkImageList(b *bench) {
	want := b.imageOf(b.cfg.Image).GetId()
	resp, err := b.img.ListImages(b.Context(), &runtimeapi.ListImagesRequest{})
	b.must(err)
	if !slices.ContainsFunc(resp.GetImages(), func(i *runtimeapi.Image) bool { return i.GetId() == want }) {
		b.broken("%s is not among %d", want, len(resp.GetImages()))
	}
}

func checkPullFails(b *bench) {
	_, err := b.img.PullImage(b.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: b.cfg.Missing}})
	if err == nil {
		b.broken("it succeeded")
	}
	if i := b.imageOf(b.cfg.Missing); i != nil {
		b.broken("it is there: %v", i)
	}
}

func checkRemoveAbsent(b *bench) {
	_, err := b.img.RemoveImage(b.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: b.cfg.Missing}})
	if !gone(err) {
		b.broken("%v", err)
	}
}

func checkImageFs(b *bench) {
	resp, err := b.img.ImageFsInfo(b.Context(), &runtimeapi.ImageFsInfoRequest{})
	if status.Code(err) == codes.Unimplemented {
		b.Skip("this runtime has no ImageFsInfo")
	}
	b.must(err)
	if len(resp.GetImageFilesystems()) == 0 {
		b.broken("it tells %v", resp)
	}
	at := resp.GetImageFilesystems()[0].GetFsId().GetMountpoint()
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		b.broken("it tells %q: %v", at, err)
	}
}
