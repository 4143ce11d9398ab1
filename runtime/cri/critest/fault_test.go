package critest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

func TestF1_HangThatHonoursItsContext(t *testing.T) {
	for _, method := range []Method{RunPodSandbox, CreateContainer} {
		t.Run(string(method), func(t *testing.T) {
			onBubble(t, Config{}, func(n *node) {
				act := n.creation(method)
				n.inject(faults.Fault{Match: faults.Match{Method: method}, When: faults.Midway, Hang: new(faults.Gate)})
				ctx, cancel := context.WithTimeout(n.Context(), 4*time.Minute)
				defer cancel()
				took := after(func() {
					_, err := act(ctx)
					n.code(err, codes.DeadlineExceeded)
				})
				if took != 4*time.Minute {
					n.Errorf("it took %v, want %v", took, 4*time.Minute)
				}
				synctest.Wait()
				if _, err := act(n.Context()); err != nil {
					n.Errorf("the name was not given back: %v", err)
				}
			})
		})
	}
}

// creation returns a function that creates the same sandbox or container each time.
func (n *node) creation(m Method) func(ctx context.Context) (string, error) {
	if m == RunPodSandbox {
		return func(ctx context.Context) (string, error) { return n.trySandbox(ctx, "uid") }
	}
	sandbox := n.newSandbox("uid")
	return func(ctx context.Context) (string, error) { return n.tryContainer(ctx, sandbox, "uid", 0, "serve") }
}

// A creation times out and succeeds late. In the meantime its name is taken. Afterwards CRI-O returns
// the created object.
func TestS1_LateSuccessReservesTheName(t *testing.T) {
	for _, method := range []Method{RunPodSandbox, CreateContainer} {
		for _, style := range []Model{Containerd2, Containerd16, CRIO} {
			t.Run(string(method)+[]string{" containerd 2", " containerd 1.6", " CRI-O"}[style], func(t *testing.T) {
				onBubble(t, Config{Like: style}, func(n *node) {
					act := n.creation(method)
					gate := new(faults.Gate)
					n.inject(faults.Fault{Match: faults.Match{Method: method}, When: faults.Midway, Hang: gate, IgnoreCancel: true})
					ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
					defer cancel()
					_, err := act(ctx)
					n.code(err, codes.DeadlineExceeded)
					n.wantSecond(act, style, gate)
				})
			})
		}
	}
}

// wantSecond requests the same object again, during the first creation and after it.
func (n *node) wantSecond(act func(context.Context) (string, error), style Model, gate *faults.Gate) {
	n.Helper()
	before := len(n.sandboxes()) + len(n.containers())
	ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
	defer cancel()
	events := n.events()
	_, err := act(ctx)
	if style == CRIO {
		n.code(err, codes.DeadlineExceeded)
	} else if n.code(err, style.nameTaken()); !strings.Contains(err.Error(), "is reserved for") {
		n.Errorf("%v, want %q in it", err, "is reserved for")
	}
	synctest.Wait() // until the runtime has noticed that the second caller disconnected
	if gate.Waiting() != 1 {
		n.Errorf("%d are being made", gate.Waiting())
	}
	gate.Open()
	synctest.Wait()
	shown := len(n.sandboxes()) + len(n.containers()) - before
	id, err := act(n.Context())
	if style != CRIO {
		n.code(err, style.nameTaken())
		if shown != 1 {
			n.Errorf("%d are there", shown)
		}
		return
	}
	n.ok(err)
	for _, e := range first(events()) {
		if e.GetContainerId() == id {
			n.Errorf("the event was sent before it was requested: %v", e.GetContainerEventType())
		}
	}
	if now := len(n.sandboxes()) + len(n.containers()) - before; shown != 0 || now != 1 {
		n.Errorf("%d are shown before it is asked for, %d then", shown, now)
	}
	if again, err := act(n.Context()); err != nil || again != id {
		n.Errorf("then it is %s: %v, want %v and no error", again, err, id)
	}
}

func first[T any](v T, _ error) T { return v }

// A request for an object in creation waits until its caller's deadline. The next request gets the
// created object, or creates it.
func TestS1_WaitingForTheFirst(t *testing.T) {
	for _, fails := range []bool{false, true} {
		onBubble(t, Config{Like: CRIO}, func(n *node) {
			f := faults.Fault{Match: faults.Match{Method: RunPodSandbox}, When: faults.Midway, Delay: time.Minute}
			if fails {
				f.Err = status.Error(codes.Unknown, "no network")
			}
			n.inject(f)
			first := make(chan string, 1)
			go func() {
				id, _ := n.trySandbox(n.Context(), "uid")
				first <- id
			}()
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(n.Context(), 2*time.Minute)
			defer cancel()
			if id, err := n.trySandbox(ctx, "uid"); status.Code(err) != codes.DeadlineExceeded {
				n.Errorf("the second is %q, %v", id, err)
			}
			got, third := <-first, n.newSandbox("uid")
			if (got == "") != fails || !fails && got != third {
				n.Errorf("first %q, third %q", got, third)
			}
			if len(n.sandboxes()) != 1 {
				n.Errorf("%d sandboxes, want 1 of them", len(n.sandboxes()))
			}
		})
	}
}

func TestS1_TextOfAReservedName(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		id := n.newSandbox("uid")
		_, err := n.trySandbox(n.Context(), "uid")
		want := `failed to reserve sandbox name "web_default_uid_0": name "web_default_uid_0" is reserved for "` + id + `"`
		if status.Convert(err).Message() != want {
			n.Errorf("got  %v\nwant %s", err, want)
		}
		c := n.newContainer(id, "uid", "serve")
		_, err = n.tryContainer(n.Context(), id, "uid", 0, "serve")
		want = `failed to reserve container name "app_web_default_uid_0": name "app_web_default_uid_0" is reserved for "` + c + `"`
		if status.Convert(err).Message() != want {
			n.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

func TestF1_LateStart(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		id := n.newContainer(sandbox, "uid", "sleep", "1000")
		gate := new(faults.Gate)
		n.inject(faults.Fault{Match: faults.Match{Method: StartContainer}, Hang: gate, IgnoreCancel: true})
		ctx, cancel := context.WithTimeout(n.Context(), time.Second)
		defer cancel()
		_, err := n.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		n.code(err, codes.DeadlineExceeded)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED, 0)
		gate.Open()
		synctest.Wait()
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING, 0)
		started := n.Journal().Of(StartContainer)
		if err := started[len(started)-1].Err; err == nil { // Canceled if the runtime notices the client's end before the deadline
			n.Error("the journal reports the start as answered, whose caller had given up")
		}
	})
}

func TestC1_F2_EffectThenError(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Unavailable} {
		onBubble(t, Config{}, func(n *node) {
			sandbox := n.newSandbox("uid")
			n.inject(faults.Fault{Match: faults.Match{Method: CreateContainer}, When: faults.After, Err: status.Error(code, "gone")})
			_, err := n.tryContainer(n.Context(), sandbox, "uid", 0, "serve")
			n.code(err, code)
			made := n.containers()
			if len(made) != 1 {
				n.Fatalf("%d containers, want 1 of them", len(made))
			}
			n.inject(faults.Fault{Match: faults.Match{Method: StartContainer, Container: "app"}, When: faults.After, Err: status.Error(code, "gone")})
			n.code(n.startIt(made[0].GetId()), code)
			n.wantState(made[0].GetId(), runtimeapi.ContainerState_CONTAINER_RUNNING, 0)
		})
	}
}

func TestF3_ErrorBeforeAnyEffect(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		i := n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox, PodUID: "one"}, Skip: 1, Times: 2, Err: status.Error(codes.ResourceExhausted, "busy")})
		var got []codes.Code
		for range 4 {
			id, err := n.trySandbox(n.Context(), "one")
			got = append(got, status.Code(err))
			if err == nil {
				n.ok(n.Remove(id))
			}
			n.ok(n.Remove(n.newSandbox("two")))
		}
		want := []codes.Code{codes.OK, codes.ResourceExhausted, codes.ResourceExhausted, codes.OK}
		for k := range want {
			if got[k] != want[k] {
				n.Fatalf("got %v, want %v", got, want)
			}
		}
		if i.Hits() != 2 || len(n.sandboxes()) != 0 {
			n.Errorf("struck %d, %d sandboxes", i.Hits(), len(n.sandboxes()))
		}
	})
}

func TestF3_RemovedAndAlways(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		i := n.inject(faults.Fault{Times: faults.Always, Err: status.Error(codes.Internal, "no")})
		for range 3 {
			_, err := n.trySandbox(n.Context(), "uid")
			n.code(err, codes.Internal)
		}
		i.Remove()
		n.newSandbox("uid")
	})
}

func TestC2_F4_NameHeldForNothing(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.newSandbox("uid")
		free := n.HoldName("app_web_default_uid_0")
		_, err := n.tryContainer(n.Context(), sandbox, "uid", 0, "serve")
		n.code(err, codes.FailedPrecondition)
		if len(n.containers()) != 0 {
			n.Error("the holder is listed")
		}
		if _, err := n.tryContainer(n.Context(), sandbox, "uid", 1, "serve"); err != nil {
			n.Errorf("the next attempt: %v", err)
		}
		free()
		if _, err := n.tryContainer(n.Context(), sandbox, "uid", 0, "serve"); err != nil {
			n.Errorf("a free name: %v", err)
		}
		n.HoldName("app_web_default_uid_2")
		n.ok(n.Restart(faults.Restart{}))
		if _, err := n.tryContainer(n.Context(), sandbox, "uid", 2, "serve"); err != nil {
			n.Errorf("after a restart: %v", err)
		}
	})
}

func TestF10_ExecHangsOrFails(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", "serve")
		exec := func(ctx context.Context) error {
			_, err := n.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: script("cat /hook"), Timeout: 5})
			return err
		}
		has := func(text string) func(Call) bool {
			return func(c Call) bool {
				return strings.Contains(fmt.Sprint(c.Request().(*runtimeapi.ExecSyncRequest).GetCmd()), text)
			}
		}
		n.inject(faults.Fault{Match: faults.Match{Method: ExecSync, If: has("cat /hook")}, Hang: new(faults.Gate)})
		ctx, cancel := context.WithTimeout(n.Context(), time.Hour)
		defer cancel()
		if took := after(func() { n.code(exec(ctx), codes.DeadlineExceeded) }); took != time.Hour {
			n.Errorf("it hung for %v", took)
		}
		n.inject(faults.Fault{Match: faults.Match{Method: ExecSync}, Err: status.Error(codes.Unknown, "broken")})
		n.code(exec(n.Context()), codes.Unknown)
		n.ok(exec(n.Context()))
		n.inject(faults.Fault{Match: faults.Match{Method: ExecSync, If: has("other")}, Err: status.Error(codes.Unknown, "broken")})
		n.ok(exec(n.Context()))
	})
}

func TestW2_F13_PullHangs(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		pull := func(ctx context.Context) error {
			_, err := n.img.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "big"}})
			return err
		}
		present := func() bool {
			resp, err := n.img.ImageStatus(n.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "big"}})
			n.ok(err)
			return resp.GetImage() != nil
		}
		for _, deaf := range []bool{false, true} {
			gate := new(faults.Gate)
			n.inject(faults.Fault{Match: faults.Match{Method: PullImage, Image: "big"}, When: faults.Midway, Hang: gate, IgnoreCancel: deaf})
			ctx, cancel := context.WithCancel(n.Context())
			time.AfterFunc(time.Minute, cancel)
			if took := after(func() { n.code(pull(ctx), codes.Canceled) }); took != time.Minute {
				n.Errorf("it took %v, want %v", took, time.Minute)
			}
			synctest.Wait() // until the runtime has noticed that the caller disconnected
			gate.Open()
			synctest.Wait()
			if present() != deaf {
				n.Errorf("deaf %v: on the node %v", deaf, present())
			}
		}
	})
}

func TestB3_F13_PullWantsCredentials(t *testing.T) {
	good := &runtimeapi.AuthConfig{Username: "u", Password: "p"}
	cfg := Config{Registry: []RemoteImage{{Image: Image{Name: "reg.io/private"}, PullTime: 3 * time.Second, Credentials: []*runtimeapi.AuthConfig{good}}}}
	onBubble(t, cfg, func(n *node) {
		pull := func(a *runtimeapi.AuthConfig) error {
			_, err := n.img.PullImage(n.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "reg.io/private"}, Auth: a})
			return err
		}
		for _, a := range []*runtimeapi.AuthConfig{nil, {Username: "u"}, {Username: "u", Password: "q"}} {
			if err := pull(a); err == nil || !strings.Contains(err.Error(), "pull access denied") {
				n.Errorf("with %v: %v, want an error and %q in it", a.GetUsername(), err, "pull access denied")
			}
		}
		if took := after(func() { n.ok(pull(good)) }); took != 3*time.Second {
			n.Errorf("the pull took %v", took)
		}
		changed := &runtimeapi.AuthConfig{RegistryToken: "t"}
		n.ok(n.SetCredentials("reg.io/private", changed))
		if err := pull(good); err == nil {
			n.Error("the old credentials still work")
		}
		n.ok(pull(changed))
		n.ok(n.SetCredentials("reg.io/private"))
		n.ok(pull(nil))
		if n.SetCredentials("none") == nil {
			n.Error("an image that is not in the registry has credentials")
		}
	})
}

func TestF14_CrashBetweenTwoCalls(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		for k := 1; k <= 3; k++ {
			conn, err := n.Dial()
			n.ok(err)
			agent := &node{T: n.T, Runtime: n.Runtime, rt: runtimeapi.NewRuntimeServiceClient(conn)}
			before := len(n.Journal())
			n.CrashAfter(k, func() { _ = conn.Close() })
			uid := "uid" + string(rune('0'+k))
			sandbox, err := agent.trySandbox(n.Context(), uid)
			if err == nil {
				var id string
				if id, err = agent.tryContainer(n.Context(), sandbox, uid, 0, "serve"); err == nil {
					err = agent.startIt(id)
				}
			}
			n.code(err, codes.Canceled)
			synctest.Wait()
			if j := n.Journal().After(before); len(j) != k || len(j.Where(failed)) != 0 {
				n.Errorf("the crash after call %d left\n%v", k, j)
			}
		}
	})
}

func TestInjectValidates(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for field, f := range map[string]faults.Fault{
		"Fault.Match.Method": {Match: faults.Match{Method: "Run"}, Err: errAway},
		"Fault.When":         {When: 7, Err: errAway},
		"Fault.Skip":         {Skip: -1, Err: errAway},
		"Fault.Times":        {Times: -2, Err: errAway},
		"Fault.Delay":        {Delay: -1},
		"does nothing":       {},
	} {
		if _, err := r.Inject(f); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error and %v in it", field, err, field)
		}
	}
}

func TestDelayAndLatency(t *testing.T) {
	onBubble(t, Config{Latency: map[Method]time.Duration{RunPodSandbox: 2 * time.Second}}, func(n *node) {
		n.inject(faults.Fault{Match: faults.Match{Method: RunPodSandbox}, Delay: 3 * time.Second})
		if took := after(func() { n.newSandbox("uid") }); took != 5*time.Second {
			n.Errorf("it took %v, want %v", took, 5*time.Second)
		}
	})
}

func TestMatchIf(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("uid", "serve")
		n.inject(faults.Fault{
			Match: faults.Match{Method: StopContainer, If: func(c Call) bool { return c.Request().(*runtimeapi.StopContainerRequest).GetTimeout() == 7 }},
			Err:   status.Error(codes.Internal, "seven"),
		})
		n.code(n.stopIt(n.Context(), id, 7), codes.Internal)
		n.ok(n.stopIt(n.Context(), id, 1))
	})
}
