package main

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/cri"
)

type pulls struct {
	cri.ImagePuller
	done int
}

func (p *pulls) PullImage(context.Context, *runtimeapi.PullImageRequest, ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	p.done++
	return &runtimeapi.PullImageResponse{}, nil
}

func TestPullsAreBounded(t *testing.T) {
	for qps, want := range map[int32]int{1: 2, 0: 10} {
		p := &pulls{}
		limited := pullsOf(p, &kubelet.KubeletConfiguration{RegistryPullQPS: &qps, RegistryBurst: 2})
		for range 10 {
			if _, err := limited.PullImage(t.Context(), nil); err != nil && !errors.Is(err, errPullQPS) {
				t.Error(err)
			}
		}
		if p.done < want || p.done > want+1 {
			t.Errorf("%d per second: %d of 10 are pulled, want %d", qps, p.done, want)
		}
	}
}

func TestPodsPerCore(t *testing.T) {
	for perCore, want := range map[int32]int64{0: 110, 10: 40, 100: 110} {
		if got := maxPods(&kubelet.KubeletConfiguration{MaxPods: 110, PodsPerCore: perCore}, 4); got != want {
			t.Errorf("%d for each of 4: %d, want %d", perCore, got, want)
		}
	}
}
