package podworkers

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// W11: no memory and no goroutine of removed pods is left, whatever happened to them.
func TestW11_NothingIsLeftOfChurn(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 3}, func(b *bubble) {
		baseline := bubbled()
		var calls atomic.Int64
		b.do = func(ctx context.Context, w Work) (Result, error) {
			fate := calls.Add(1)
			switch {
			case w.Type == SyncPod && fate%3 == 0:
				<-ctx.Done()
				return Result{}, ctx.Err()
			case w.Type == SyncPod && fate%7 == 0:
				time.Sleep(10 * time.Second)
			case fate%5 == 0:
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		for i := range 1000 {
			p := pod(types.UID(fmt.Sprint(i)))
			if i%4 == 0 {
				p = static(p.UID)
			}
			b.update(create(p))
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
			_ = b.KillPod(ctx, Update{Pod: p})
			cancel()
		}
		b.pass(5 * time.Minute)
		b.SyncKnownPods(nil)
		b.pass(5 * time.Minute)
		b.SyncKnownPods(nil)
		synctest.Wait()
		b.empty()
		if n := bubbled(); n != baseline {
			t.Errorf("%d goroutines, %d before", n, baseline)
		}
	})
}

// bubbled returns the number of goroutines in bubbles, without those of the Go runtime.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:goruntime.Stack(stacks, true)]), "synctest bubble")
}

// W11: a pod with work has one goroutine, and an idle pod has none.
func TestW11_OnlyBusyPodsHaveAGoroutine(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		baseline := bubbled()
		release := make(chan struct{})
		b.do = func(_ context.Context, w Work) (Result, error) {
			if strings.HasPrefix(string(w.UID), "busy") {
				<-release
			}
			return Result{}, nil
		}
		for i := range 50 {
			b.update(create(pod(types.UID(fmt.Sprint("idle", i)))))
		}
		for i := range 5 {
			b.update(create(pod(types.UID(fmt.Sprint("busy", i)))))
		}
		if n := bubbled() - baseline; n != 5 {
			t.Errorf("%d goroutines for 50 idle and 5 busy pods, want 5", n)
		}
		close(release)
		synctest.Wait()
		if n := bubbled() - baseline; n != 0 {
			t.Errorf("%d goroutines for 55 idle pods, want none", n)
		}
	})
}

// W11: the context of a call ends with the call, and so do derived contexts.
func TestW11_ContextEndsWithTheCall(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var of context.Context
		b.do = func(ctx context.Context, _ Work) (Result, error) {
			of = ctx
			return Result{}, nil
		}
		b.update(create(pod("a")))
		if of.Err() == nil {
			t.Error("the context of a call that has returned goes on")
		}
	})
}
