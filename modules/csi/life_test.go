package csi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A whole agent with pods that come and go lives through faults of its driver and its API server, and dies before or
// after single calls. csitest and the Mounter report broken rules: a volume is published before it is staged, unstaged or
// unpublished while it is in use, or loses data. In the end the wanted pods run, and without them nothing is left.
//
// PODSYNC_CSI_LIVES is the number of lives, 6 by default.
func TestRandomLives(t *testing.T) {
	lives := uint64(6)
	if text := os.Getenv("PODSYNC_CSI_LIVES"); text != "" {
		must.Get(fmt.Sscan(text, &lives))(t)
	}
	for seed := range lives {
		rng := rand.New(rand.NewPCG(seed, 11))
		onMachine(t, csitest.Config{NoStage: rng.IntN(4) == 0, SingleWriter: rng.IntN(2) == 0, NoExpand: rng.IntN(2) == 0}, func(t *testing.T, m *machine) {
			(&life{machine: m, rng: rng}).live()
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, m.driver.Calls())
			}
		})
	}
}

// A life is a machine to which random things happen.
type life struct {
	*machine
	rng     *rand.Rand
	crash   *crash
	created int
	// away means that the API server does not answer.
	mu   sync.Mutex
	away bool
}

// A crash is a connection to the driver that ends the agent at a call.
type crash struct {
	grpc.ClientConnInterface
	mu sync.Mutex
	// left is the number of calls before the crash, negative for none. after means that the driver gets the call.
	left  int
	after bool
	// crashed is closed at the crash: later calls of the agent reach no driver.
	crashed chan struct{}
}

var errCrash = errors.New("the agent has crashed")

func (c *crash) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.mu.Lock()
	c.left--
	now, after := c.left == 0, c.after
	select {
	case <-c.crashed:
		c.mu.Unlock()
		<-ctx.Done() // a process that was killed makes no further call
		return context.Cause(ctx)
	default:
	}
	if now {
		close(c.crashed)
	}
	c.mu.Unlock()
	if now && !after {
		return errCrash
	}
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if now {
		return errCrash // the answer is lost
	}
	return err
}

// next starts the next agent, which crashes at a random call or not at all.
func (l *life) next() {
	l.stop()
	l.crash = &crash{ClientConnInterface: l.conn, left: -1, crashed: make(chan struct{}), after: l.rng.IntN(2) == 0}
	if l.rng.IntN(3) > 0 {
		l.crash.left = 3 + l.rng.IntN(12) // the first two calls are those of the registration
	}
	l.config.Drivers = map[string]grpc.ClientConnInterface{driverName: l.crash}
	l.run()
}

func (l *life) live() {
	find := l.objects.Claim
	l.objects.Claim = func(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.away {
			return nil, errors.New("connection refused")
		}
		return find(ctx, namespace, name)
	}
	l.next()
	for range 20 {
		l.step()
		l.wait(time.Duration(l.rng.IntN(l.rng.IntN(90)+1)) * time.Second)
	}
	l.recover()
	l.checkRunning()
	l.mu.Lock()
	clear(l.wanted)
	l.mu.Unlock()
	l.want()
	l.settle()
	l.settle()
	l.wantNothing()
	l.wantNoDirectories()
}

// wait lets time pass. If the agent crashes, the next one starts after a moment.
func (l *life) wait(d time.Duration) {
	for end := time.Now().Add(d); ; {
		select {
		case <-l.crash.crashed:
			time.Sleep(time.Duration(l.rng.IntN(3000)) * time.Millisecond)
			l.next()
		case <-time.After(time.Until(end)):
			return
		}
	}
}

// step does one random thing.
func (l *life) step() {
	methods := []string{"NodeStage", "NodePublish", "NodeUnpublish", "NodeUnstage", "NodeGetStats"}
	errs := []codes.Code{codes.OK, codes.Internal, codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.InvalidArgument}
	switch l.rng.IntN(10) {
	case 0, 1, 2, 3:
		l.created++
		name := fmt.Sprint("pod-", l.created)
		kinds := []string{"data", "data", "mine", "raw", "inline", "ephemeral"}
		pod := podFor(name, "uid-of-"+name, kinds[l.rng.IntN(len(kinds))])
		l.mu.Lock()
		l.wanted[pod.UID] = pod
		l.mu.Unlock()
		l.want()
	case 4, 5:
		l.mu.Lock()
		uids := make([]types.UID, 0, len(l.wanted))
		for uid := range l.wanted {
			uids = append(uids, uid)
		}
		slices.Sort(uids)
		if len(uids) > 0 {
			delete(l.wanted, uids[l.rng.IntN(len(uids))])
		}
		l.mu.Unlock()
		l.want()
	case 6:
		code := errs[l.rng.IntN(len(errs))]
		definite := code == codes.Internal || code == codes.InvalidArgument // with these, the driver has done nothing
		l.driver.Inject(csitest.Fault{Method: methods[l.rng.IntN(len(methods))], Times: 1 + l.rng.IntN(3), Code: code, Done: l.rng.IntN(2) == 0 && !definite,
			Deaf: l.rng.IntN(3) == 0, Delay: time.Duration(l.rng.IntN(4)*l.rng.IntN(60)) * time.Second})
	case 7: // the driver dies, and the calls in progress may have been done
		for _, method := range methods {
			l.driver.Inject(csitest.Fault{Method: method, Code: codes.Unavailable, Done: l.rng.IntN(2) == 0, Times: 1 + l.rng.IntN(2)})
		}
	case 8:
		l.mu.Lock()
		l.away = !l.away
		l.mu.Unlock()
	case 9:
		l.m.VolumeStats(l.t.Context())
	}
}

// recover ends all faults, and waits until the agent has done its work.
func (l *life) recover() {
	l.driver.Heal()
	l.mu.Lock()
	l.away = false
	l.mu.Unlock()
	l.next()
	l.crash.mu.Lock()
	l.crash.left = -1
	l.crash.mu.Unlock()
	l.wait(10 * time.Minute)
}

// checkRunning checks that the wanted pods run. Of the pods with the ReadWriteOncePod volume only one does.
func (l *life) checkRunning() {
	exclusive, running := 0, 0
	for uid, pod := range l.wanted {
		claim := pod.Spec.Volumes[0].PersistentVolumeClaim
		switch runs := l.runs(uid); {
		case claim == nil || claim.ClaimName != "mine":
			if !runs {
				l.t.Errorf("pod %s does not run", uid)
			}
		case runs:
			running++
			fallthrough
		default:
			exclusive++
		}
	}
	if running != min(exclusive, 1) {
		l.t.Errorf("%d of %d pods run on a ReadWriteOncePod volume", running, exclusive)
	}
}
