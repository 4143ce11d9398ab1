package main

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"k8s.io/client-go/util/flowcontrol"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri"
)

// maxPods returns the maximum number of pods on the node.
func maxPods(k *kubelet.KubeletConfiguration, cpus int) int64 {
	if most := int64(k.PodsPerCore) * int64(cpus); most > 0 {
		return min(most, int64(k.MaxPods))
	}
	return int64(k.MaxPods)
}

// pullsOf limits the rate of image pulls by registryPullQPS and registryBurst.
func pullsOf(runtime cri.ImagePuller, k *kubelet.KubeletConfiguration) cri.ImagePuller {
	if *k.RegistryPullQPS == 0 {
		return runtime
	}
	return limitedPulls{runtime, flowcontrol.NewTokenBucketRateLimiter(float32(*k.RegistryPullQPS), int(k.RegistryBurst))}
}

type limitedPulls struct {
	cri.ImagePuller
	limit flowcontrol.RateLimiter
}

// errPullQPS is the kubelet's error. The pull is retried after its back-off.
var errPullQPS = errors.New("pull QPS exceeded")

// PullImage pulls an image, or fails immediately if the rate is exceeded.
func (l limitedPulls) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest, options ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	if !l.limit.TryAccept() {
		return nil, errPullQPS
	}
	return l.ImagePuller.PullImage(ctx, r, options...)
}
