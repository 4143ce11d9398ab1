package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	prober "github.com/podsync/podsync/syncpod/probe"
)

// observed records the reports of a prober.
type observed struct {
	mu   sync.Mutex
	what []string
}

func (o *observed) Checked(c prober.Check) {
	outcomes := map[actions.ProbeResult]string{actions.ProbeSuccess: "success", actions.ProbeFailure: "failure", actions.ProbeUnknown: "unknown"}
	o.add(fmt.Sprintf("%s %s %s %s %v", c.Pod.Name, c.Container, c.Kind, outcomes[c.Outcome], c.Took))
}

func (o *observed) PodForgotten(uid types.UID) { o.add("forgotten " + string(uid)) }

func (o *observed) add(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.what = append(o.what, line)
}

// Each check is reported with its result, regardless of the thresholds. Nothing is reported of a pod after it was reported
// as forgotten.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commands{exit: map[string]int32{"ill": 1}, errs: map[string]error{"breaks": errors.New("unavailable")}, hang: map[string]bool{"hangs": true}, began: time.Now()}
		o := &observed{}
		p := must.Get(prober.New(prober.Config{Exec: c, Observer: o}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = p.Run(ctx, func(types.UID) {}) }()
		synctest.Wait()
		for _, command := range []string{"well", "ill", "breaks", "hangs"} {
			check := exec(command)
			check.SuccessThreshold, check.FailureThreshold = 5, 5
			p.Observe(podOf(v1.Container{Name: command, ReadinessProbe: check}), named(command), false)
			time.Sleep(2 * time.Second)
			p.Forget(uid)
		}
		p.Observe(podOf(v1.Container{Name: "hangs", ReadinessProbe: exec("hangs")}), named("hangs"), false)
		synctest.Wait()
		p.Forget(uid) // cuts the check short
		p.Forget("another")
		synctest.Wait()
		want := []string{
			"web well Readiness success 0s", "forgotten u", "web ill Readiness failure 0s", "forgotten u",
			"web breaks Readiness unknown 0s", "forgotten u", "web hangs Readiness failure 1s", "forgotten u", "forgotten u", "forgotten another",
		}
		if !slices.Equal(o.what, want) {
			t.Errorf("observed %q, want %q", o.what, want)
		}
	})
}

func named(container string) *runtime.PodStatus {
	s := running("a")
	s.Containers[0].Name = container
	return s
}

// A pod and a check may end at the same time: the last report is that the pod
// is forgotten.
func TestNothingIsReportedOfAForgottenPod(t *testing.T) {
	c := &commands{}
	o := &observed{}
	p := must.Get(prober.New(prober.Config{Exec: c, Observer: o}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, func(types.UID) {}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for i := range 300 {
		p.Observe(podOf(v1.Container{Name: "app", ReadinessProbe: exec("well")}), running("a"), false)
		time.Sleep(time.Duration(i%20) * 5 * time.Microsecond)
		p.Forget(uid)
		o.mu.Lock()
		told := len(o.what)
		o.mu.Unlock()
		time.Sleep(20 * time.Microsecond)
		o.mu.Lock()
		if len(o.what) != told || o.what[told-1] != "forgotten u" {
			t.Errorf("observed %q, want %v calls, the last %q", o.what, told, "forgotten u")
		}
		o.mu.Unlock()
	}
}
