package controllers_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/cluster/clustertest"
)

const manifest = `
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  parallelism: 1
  completions: 1
  backoffLimit: 3
  manualSelector: true
  selector: {matchLabels: {job: report}}
  podFailurePolicy:
    rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]
  template:
    metadata: {labels: {job: report}}
    spec:
      restartPolicy: Never
      containers: [{name: app, image: busybox, command: [sh, -c, "sleep 60; exit EXIT"]}]
`

// A Job whose container exits with 42 fails at once. After any other exit code the Job retries three times.
func TestPodFailurePolicy(t *testing.T) {
	for exit, want := range map[string]struct {
		reason string
		failed int32
	}{
		"42": {batchv1.JobReasonPodFailurePolicy, 1},
		"1":  {batchv1.JobReasonBackoffLimitExceeded, 4},
	} {
		t.Run("exit "+exit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clustertest.Start(t, clustertest.Config{Nodes: 2})
				controllers(t, c)
				c.ApplyYAML(t, strings.ReplaceAll(manifest, "EXIT", exit))
				var j *batchv1.Job
				c.Eventually(t, "the Job fails", time.Hour, func(ctx context.Context) (failed bool) {
					j, _ = c.Clientset().BatchV1().Jobs("default").Get(ctx, "report", metav1.GetOptions{})
					return reasonOf(j, batchv1.JobFailed) != ""
				})
				if reason := reasonOf(j, batchv1.JobFailed); reason != want.reason || j.Status.Failed != want.failed {
					t.Errorf("%s after %d failed pods, want %s after %d", reason, j.Status.Failed, want.reason, want.failed)
				}
				c.NoDoubleRuns(t)
			})
		})
	}
}
