package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// recorder notes what it is told, with the seconds since it was made.
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
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Name: "p", Namespace: "ns"}, Labels: podLabels(owner, uid)},
	}
}

// follow runs Events against s for d.
func follow(t *testing.T, s *server, d time.Duration) (*recorder, error) {
	t.Helper()
	r := &recorder{began: time.Now()}
	e, err := NewEvents(EventsConfig{Runtime: s.client(t, Config{}), Handler: r})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return r, e.Run(ctx)
}

func TestEventsOfOwnPodsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.events = func(stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
			for _, m := range []*runtimeapi.ContainerEventResponse{
				message(DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT),
				message("other", "v", "d", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				{ContainerId: "c"},
				message(DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				message(DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT),
				message(DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT),
				message(DefaultOwner, "u", "u", runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT),
			} {
				if err := stream.Send(m); err != nil {
					return err
				}
			}
			return hang(stream.Context())
		}
		r, err := follow(t, s, time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want its context's error", err)
		}
		var got []string
		for _, e := range r.events {
			got = append(got, fmt.Sprintf("%s %s %v %v", e.PodUID, e.ContainerID, e.Type, e.CreatedAt.IsZero()))
		}
		want := []string{"u c created true", " c created true", "u c started true", "u c started true", "u c stopped true", "u u deleted true"}
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
		s := newServer(t)
		s.events = func(grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
			return status.Error(codes.Unavailable, "shutting down")
		}
		r, _ := follow(t, s, time.Minute)
		if len(r.opened) < 55 || len(r.opened) > 66 {
			t.Errorf("opened %d times in a minute, want about once a second", len(r.opened))
		}
		if r.opened[1] != firstReconnect {
			t.Errorf("opened again after %v, want %v", r.opened[1], firstReconnect)
		}
		for _, err := range r.lost {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("lost: %v", err)
			}
		}
	})
}

// A stream that brings something starts the pauses anew.
func TestF9_PausesStartAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.events = func(stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
			return stream.Send(message(DefaultOwner, "u", "c", runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT))
		}
		r, _ := follow(t, s, time.Second)
		if want := int(time.Second / firstReconnect); len(r.opened) != want || len(r.events) != want || len(r.lost) != want {
			t.Errorf("%d streams, %d events, %d ends; want %d of each", len(r.opened), len(r.events), len(r.lost), want)
		}
	})
}

func TestF8_EventsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.events = func(stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
			return hang(stream.Context())
		}
		time.AfterFunc(time.Minute, s.shutdown)
		time.AfterFunc(10*time.Minute, s.start)
		r, _ := follow(t, s, 11*time.Minute)
		if len(r.opened) != 2 || r.opened[1] < 10*time.Minute || r.opened[1] > 10*time.Minute+2500*time.Millisecond {
			t.Errorf("opened at %v, want 0 and soon after 10m", r.opened)
		}
	})
}

func TestEventsUnimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := follow(t, newServer(t), time.Minute)
		if !errors.Is(err, ErrUnimplemented) {
			t.Errorf("Run: %v, want class %q", err, ErrUnimplemented)
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
		"Owner.Name":           {Runtime: runtime, Handler: handler, Owner: Owner{Name: "a b"}},
	} {
		if _, err := NewEvents(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error that names %s", err, want)
		}
	}
}

// unavailable counts who asks for a stream that there is not.
type unavailable struct{ at []time.Time }

func (u *unavailable) GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	u.at = append(u.at, time.Now())
	return nil, status.Error(codes.Unavailable, "away")
}

func TestNoPauseIsLongerThanMaxRetryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unavailable{}
		e, err := NewEvents(EventsConfig{Runtime: u, Handler: &recorder{}, MaxRetryDelay: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := e.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if pause := u.at[1].Sub(u.at[0]); pause != 5*time.Millisecond {
			t.Errorf("the first pause was %v", pause)
		}
	})
}
