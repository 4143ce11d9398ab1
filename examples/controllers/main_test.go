package controllers_test

import (
	"context"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"github.com/podsync/podsync/modules/cluster/clustertest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// controllers runs Kubernetes' controllers of Jobs and StatefulSets until the test ends.
func controllers(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := informers.NewSharedInformerFactory(c.Clientset(), 0)
	jobs := must.Get(job.NewController(ctx, c.Clientset(), f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil))(t)
	sets := statefulset.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(), f.Core().V1().PersistentVolumeClaims(), f.Apps().V1().ControllerRevisions(), c.Clientset())
	f.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { jobs.Run(ctx, 1) })
	running.Go(func() { sets.Run(ctx, 1) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.Shutdown()
	})
}

// reasonOf returns the reason of a condition of a Job that is true.
func reasonOf(j *batchv1.Job, condition batchv1.JobConditionType) string {
	for _, c := range j.Status.Conditions {
		if c.Type == condition && c.Status == v1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}
