package critest

import (
	"context"
	"maps"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageStatus returns no image if the requested one is not present.
func (s service) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ImageStatusResponse{}
	if i, ok := s.images.resolve(req.GetImage().GetImage()); ok {
		resp.Image = s.images.describe(i)
		if req.GetVerbose() {
			resp.Info = map[string]string{"info": "{}"}
		}
	}
	return resp, nil
}

// ListImages returns all images sorted by name, or the one in the filter.
func (s service) ListImages(_ context.Context, req *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	if ref := req.GetFilter().GetImage().GetImage(); ref != "" {
		if i, ok := s.images.resolve(ref); ok {
			resp.Images = append(resp.Images, s.images.describe(i))
		}
		return resp, nil
	}
	for _, i := range s.images.distinct() {
		resp.Images = append(resp.Images, s.images.describe(i))
	}
	return resp, nil
}

// RemoveImage removes every name of the image. It succeeds for an unknown image, and containers
// keep running.
func (s service) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images.remove(req.GetImage().GetImage())
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (s imageStore) remove(ref string) bool {
	i, ok := s.resolve(ref)
	if ok {
		maps.DeleteFunc(s.local, func(_ string, o Image) bool { return o.ID == i.ID })
	}
	return ok
}

// ImageFsInfo returns the sum of the images' sizes. Its mount point exists, because agents query
// the system for its capacity.
func (s service) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var used uint64
	images := s.images.distinct()
	for _, i := range images {
		used += i.Size
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: s.host.mountpoint()},
		UsedBytes:  &runtimeapi.UInt64Value{Value: used},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(images))},
	}}}, nil
}
