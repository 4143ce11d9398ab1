package syncpod_test

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// Functions that are extensions.
type (
	admitterFunc func(context.Context, *v1.Pod) *syncpod.Rejection
	networkFunc  func(context.Context) error
	cleanerFunc  func(context.Context, types.UID) error
)

func (f admitterFunc) AdmitPod(ctx context.Context, pod *v1.Pod) *syncpod.Rejection {
	return f(ctx, pod)
}

func (f networkFunc) NetworkReady(ctx context.Context) error { return f(ctx) }

func (f cleanerFunc) RemovePod(ctx context.Context, pod types.UID) error { return f(ctx, pod) }
