package pleg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// recorder records its calls, with the seconds since its creation.
type recorder struct {
	began  time.Time
	opened []time.Duration
	lost   []error
	events []Event
}

func (r *recorder) StreamOpened()        { r.opened = append(r.opened, time.Since(r.began)) }
func (r *recorder) HandleEvent(e Event)  { r.events = append(r.events, e) }
func (r *recorder) StreamLost(err error) { r.lost = append(r.lost, err) }

func message(owner, uid, id string, t runtimeapi.ContainerEventType) *runtimeapi.ContainerEventResponse {
	return &runtimeapi.ContainerEventResponse{
		ContainerId: id, ContainerEventType: t,
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Name: "p", Namespace: "ns"}, Labels: map[string]string{cri.LabelOwner: owner}},
	}
}

// streams is a runtime whose event streams a function serves, nil if it has none.
type streams func(send func(*runtimeapi.ContainerEventResponse), ctx context.Context) error

// served is the client's end of one stream.
type served struct {
	grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse]
	messages chan *runtimeapi.ContainerEventResponse
	end      error // once messages is closed
}

func (s streams) GetContainerEvents(ctx context.Context, _ *runtimeapi.GetEventsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	if s == nil {
		return nil, status.Error(codes.Unimplemented, "method GetContainerEvents not implemented")
	}
	stream := &served{messages: make(chan *runtimeapi.ContainerEventResponse)}
	go func() {
		stream.end = cmp.Or(s(func(m *runtimeapi.ContainerEventResponse) { stream.messages <- m }, ctx), io.EOF)
		close(stream.messages)
	}()
	return stream, nil
}

func (s *served) Recv() (*runtimeapi.ContainerEventResponse, error) {
	if m, more := <-s.messages; more {
		return m, nil
	}
	return nil, s.end
}

// follow runs Events against s for d.
func follow(t *testing.T, s EventStreamer, d time.Duration) (*recorder, error) {
	t.Helper()
	r := &recorder{began: time.Now()}
	e := must.Get(NewEvents(EventsConfig{Runtime: s, Handler: r}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return r, e.Run(ctx)
}

func TestEventsOfOwnPodsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streams(func(send func(*runtimeapi.ContainerEventResponse), ctx context.Context) error {
			for _, m := range []*runtimeapi.ContainerEventResponse{
				message(cri.DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT),
				message("other", "v", "d", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				{ContainerId: "c"},
				message(cri.DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				message(cri.DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				message(cri.DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT),
				message(cri.DefaultOwner, "u", "u", runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT),
			} {
				send(m)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		r, err := follow(t, s, time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want its context's error", err)
		}
		var got []string
		for _, e := range r.events {
			got = append(got, fmt.Sprintf("%s %s %v", e.PodUID, e.ContainerID, e.Type))
		}
		want := []string{"u c created", " c created", "u c started", "u c started", "u c stopped", "u u deleted"}
		if !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		if len(r.opened) != 1 {
			t.Errorf("opened at %v, want once", r.opened)
		}
	})
}

// F9: a stream that ends is opened again, soon at first and never in a hot loop.
func TestF9_StreamIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streams(func(func(*runtimeapi.ContainerEventResponse), context.Context) error {
			return status.Error(codes.Unavailable, "shutting down")
		})
		r, _ := follow(t, s, time.Minute)
		// After 50, 100, ... 6,400 ms and then every 10 s.
		if len(r.opened) != 13 || r.opened[1] != firstReopen || r.opened[12]-r.opened[11] != maxReopen {
			t.Errorf("opened at %v, want pauses from %v up to %v", r.opened, firstReopen, maxReopen)
		}
		for _, err := range r.lost {
			if !errors.Is(err, cri.ErrUnavailable) {
				t.Errorf("lost: %v", err)
			}
		}
	})
}

// A stream that delivers an event resets the pauses.
func TestF9_PausesStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := streams(func(send func(*runtimeapi.ContainerEventResponse), _ context.Context) error {
			send(message(cri.DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT))
			return nil
		})
		r, _ := follow(t, s, time.Second-1)
		if want := int(time.Second / firstReopen); len(r.opened) != want || len(r.events) != want || len(r.lost) != want {
			t.Errorf("%d streams, %d events, %d ends; want %d of each", len(r.opened), len(r.events), len(r.lost), want)
		}
	})
}

func TestF8_EventsAfterARestart(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		time.AfterFunc(time.Minute, func() { n.Must(n.Restart(faults.Restart{Down: 9 * time.Minute})) })
		r, _ := follow(t, n.Client, 11*time.Minute)
		// While the runtime is unavailable, each stream ends at once.
		if last := r.opened[len(r.opened)-1]; last < 10*time.Minute || last > 10*time.Minute+maxReopen {
			t.Errorf("opened at %v, want the last one, which stays open, soon after 10m", r.opened)
		}
	})
}

func TestEventsUnimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := follow(t, streams(nil), time.Minute)
		if !errors.Is(err, cri.ErrUnimplemented) {
			t.Errorf("Run: %v, want class %q", err, cri.ErrUnimplemented)
		}
		if took := time.Since(r.began); took != 0 {
			t.Errorf("took %v to find out", took)
		}
	})
}

func TestNewEventsValidates(t *testing.T) {
	runtime, handler := runtimeapi.NewRuntimeServiceClient(nil), &recorder{}
	for want, c := range map[string]EventsConfig{
		"EventsConfig.Runtime": {Handler: handler},
		"EventsConfig.Handler": {Runtime: runtime},
		"Owner.Name":           {Runtime: runtime, Handler: handler, Owner: cri.Owner{Name: "a b"}},
	} {
		if _, err := NewEvents(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error that names %s", err, want)
		}
	}
}

// hints counts the events of a stream, by pod.
type hints struct {
	opened, lost int
	events       map[types.UID]int
}

func (h *hints) StreamOpened()       { h.opened++ }
func (h *hints) StreamLost(error)    { h.lost++ }
func (h *hints) HandleEvent(e Event) { h.events[e.PodUID]++ }

// F9: the stream continues and delivers the events that it receives. The opening of the next stream announces
// that events may have been lost.
func TestF9_StreamFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testnode.New(t, critest.Config{}).Dial(cri.Config{})
		h := &hints{events: map[types.UID]int{}}
		e := must.Get(NewEvents(EventsConfig{Runtime: n.Client, Handler: h}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		for uid, f := range map[string]faults.Event{
			"dropped":   {Action: faults.Drop, Times: faults.Always},
			"twice":     {Action: faults.Duplicate, Times: faults.Always},
			"timeless":  {Action: faults.Timeless, Times: faults.Always},
			"late":      {Action: faults.Delay, Delay: time.Minute, Times: faults.Always},
			"reordered": {Action: faults.Reorder},
			"bare":      {Action: faults.Bare, Times: faults.Always},
		} {
			f.PodUID = uid
			must.Get(n.InjectEvent(f))(t)
		}
		for _, uid := range []string{"plain", "dropped", "twice", "timeless", "late", "reordered", "bare"} {
			n.RunPod(uid, "c")
		}
		n.As(cri.Owner{Name: "other"}).RunPod("theirs", "c")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		each := h.events["plain"]
		want := map[types.UID]int{"plain": each, "twice": 2 * each, "timeless": each, "late": each, "reordered": each, "": each}
		if each == 0 || fmt.Sprint(h.events) != fmt.Sprint(want) {
			t.Errorf("events %v, want %v", h.events, want)
		}
		n.DisconnectEvents(status.Error(codes.Unavailable, "slow consumer"))
		time.Sleep(time.Second)
		n.RunPod("after", "c")
		synctest.Wait()
		if h.opened != 2 || h.lost != 1 || h.events["after"] != each {
			t.Errorf("opened %d times, lost %d times, events %v", h.opened, h.lost, h.events)
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run: %v, want %v", err, context.Canceled)
		}
	})
}
