package handler_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	hook "github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// execFunc is a runtime that only executes.
type execFunc func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)

func (f execFunc) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return f(ctx, req)
}

func noExec(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return nil, errors.New("nothing is to be executed")
}

func newRunner(t testing.TB, c hook.Config) *hook.Runner {
	t.Helper()
	if c.Exec == nil {
		c.Exec = execFunc(noExec)
	}
	return must.Get(hook.New(c))(t)
}

func exec(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

func sleep(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

// running is a running container of a runtime in memory.
func running(t *testing.T) (*critest.Runtime, runtimeapi.RuntimeServiceClient, string) {
	t.Helper()
	r, conn := critest.Start(t, critest.Config{})
	client := runtimeapi.NewRuntimeServiceClient(conn)
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"}}
	sandbox := must.Get(client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config}))(t)
	image := &runtimeapi.ImageSpec{Image: "app:v1"}
	must.Get(runtimeapi.NewImageServiceClient(conn).PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: image}))(t)
	c := must.Get(client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: image, Command: []string{"sleep", "86400"},
	}}))(t)
	must.Get(client.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}))(t)
	return r, client, c.ContainerId
}

func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, id := running(t)
		r := newRunner(t, hook.Config{Exec: client})
		result, err := r.Run(t.Context(), hook.Request{Handler: exec("sh", "-c", "sleep 3; echo out; echo err >&2"), Container: "app", ContainerID: id})
		if err != nil || string(result.Output) != "out\nerr\n" || result.Truncated {
			t.Errorf("got %q, %v, want %q as a whole", result.Output, err, "out\nerr\n")
		}

		result, err = r.Run(t.Context(), hook.Request{Handler: exec("sh", "-c", "echo s3cret; exit 7"), Container: "app", ContainerID: id})
		var failed *hook.Error
		if !errors.As(err, &failed) || !errors.Is(err, hook.ErrExitCode) || failed.ExitCode != 7 || failed.Action != hook.Exec {
			t.Errorf("got %#v, want error %v, exit code 7 and action %v", err, hook.ErrExitCode, hook.Exec)
		}
		if got := err.Error(); got != `exec handler of container "app": the command ended with exit code 7` {
			t.Errorf("%v, want %q", got, `exec handler of container "app": the command ended with exit code 7`)
		}
		if string(result.Output) != "s3cret\n" {
			t.Errorf("the output is %q", result.Output)
		}

		_, err = r.Run(t.Context(), hook.Request{Handler: exec("true"), Container: "app", ContainerID: "gone"})
		if !errors.Is(err, cri.ErrNotFound) {
			t.Errorf("in no container: %v", err)
		}
	})
}

// A hung command costs the caller what its context allows and nothing after:
// a bubble with a goroutine left in it fails.
func TestW11_HungExecEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, client, id := running(t)
		gate := &faults.Gate{}
		must.Get(rt.Inject(faults.Fault{Match: faults.Match{Method: critest.ExecSync}, Hang: gate, IgnoreCancel: true}))(t)
		r := newRunner(t, hook.Config{Exec: client})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := r.Run(ctx, hook.Request{Handler: exec("true"), Container: "app", ContainerID: id})
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it took %v, want %v", took, 5*time.Second)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		gate.Open()
	})
}

func TestExecTimeoutGoesToTheRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int64
		r := newRunner(t, hook.Config{Exec: execFunc(func(_ context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			got = append(got, req.Timeout)
			return &runtimeapi.ExecSyncResponse{}, nil
		})})
		run := func(ctx context.Context) {
			if _, err := r.Run(ctx, hook.Request{Handler: exec("true"), ContainerID: "id"}); err != nil {
				t.Error(err)
			}
		}
		run(t.Context())
		for _, d := range []time.Duration{time.Millisecond, 2 * time.Second, 2001 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			run(ctx)
			cancel()
		}
		if len(got) != 4 || got[0] != 0 || got[1] != 1 || got[2] != 2 || got[3] != 3 {
			t.Errorf("timeouts are %v", got)
		}
	})
}

func TestExecOutputIsBounded(t *testing.T) {
	r := newRunner(t, hook.Config{MaxOutput: 4, Exec: execFunc(func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: []byte("12345"), Stderr: []byte("678")}, nil
	})})
	result, err := r.Run(t.Context(), hook.Request{Handler: exec("true"), ContainerID: "id"})
	if err != nil || string(result.Output) != "5678" || !result.Truncated {
		t.Errorf("got %q, truncated %v, %v", result.Output, result.Truncated, err)
	}
}

// If CRI-O does not know the exit code of a command, it puts the command's output into the error.
func TestRuntimeTextStaysOutOfErrors(t *testing.T) {
	r := newRunner(t, hook.Config{MaxOutput: 30, Exec: execFunc(func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return nil, status.Error(codes.Unavailable, "command error: EOF, stdout: s3cret")
	})})
	result, err := r.Run(t.Context(), hook.Request{Handler: exec("login", "--password=s3cret"), ContainerID: "id"})
	if !errors.Is(err, cri.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want error %v and no %q in it", err, cri.ErrUnavailable, "s3cret")
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "s3cret") {
			t.Errorf("the chain holds %v", e)
		}
	}
	if !strings.Contains(result.Detail, "s3cret") || len(result.Detail) > 30 || !result.Truncated {
		t.Errorf("the detail is %q", result.Detail)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, hook.Config{})
		start := time.Now()
		if _, err := r.Run(t.Context(), hook.Request{Handler: sleep(7)}); err != nil || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %v, want %v and no error", err, time.Since(start), 7*time.Second)
		}
		if _, err := r.Run(t.Context(), hook.Request{Handler: sleep(0)}); err != nil || time.Since(start) != 7*time.Second {
			t.Errorf("%v after %v, want %v and no error", err, time.Since(start), 7*time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := r.Run(ctx, hook.Request{Handler: sleep(1<<63 - 1), Container: "app"})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 9*time.Second {
			t.Errorf("%v after %v, want error %v and %v", err, time.Since(start), context.DeadlineExceeded, 9*time.Second)
		}
		if got := err.Error(); got != `sleep handler of container "app": context deadline exceeded` {
			t.Errorf("%v, want %q", got, `sleep handler of container "app": context deadline exceeded`)
		}
		if _, err := r.Run(t.Context(), hook.Request{Handler: sleep(-1)}); !errors.Is(err, hook.ErrInvalid) {
			t.Errorf("negative: %v", err)
		}
	})
}

func TestInvalidHandlers(t *testing.T) {
	port := func(p intstr.IntOrString, change ...func(*v1.HTTPGetAction)) *v1.LifecycleHandler {
		get := &v1.HTTPGetAction{Port: p}
		for _, f := range change {
			f(get)
		}
		return &v1.LifecycleHandler{HTTPGet: get}
	}
	for name, tc := range map[string]struct {
		handler *v1.LifecycleHandler
		want    string
	}{
		"nil":         {nil, `lifecycle handler of container "app": invalid handler: Request.Handler is required`},
		"none":        {&v1.LifecycleHandler{}, "none of exec, httpGet and sleep"},
		"two":         {&v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}, Sleep: &v1.SleepAction{}}, "more than one"},
		"tcpSocket":   {&v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}}, "tcpSocket is not a lifecycle action"},
		"no command":  {exec(), "exec.command is empty"},
		"no ID":       {exec("true"), "Request.ContainerID is required"},
		"port name":   {port(intstr.FromString("web")), `httpGet.port "web" is not a port`},
		"port empty":  {port(intstr.FromString("")), `httpGet.port "" is not a port`},
		"port 0":      {port(intstr.FromInt32(0)), "httpGet.port is 0"},
		"port 65536":  {port(intstr.FromString("65536")), "httpGet.port is 65536"},
		"scheme":      {port(intstr.FromInt32(80), func(g *v1.HTTPGetAction) { g.Scheme = "FTP" }), `httpGet.scheme is "FTP"`},
		"host":        {port(intstr.FromInt32(80), func(g *v1.HTTPGetAction) { g.Host = "u:s3cret@a" }), "httpGet.host is more than a host"},
		"header name": {port(intstr.FromInt32(80), func(g *v1.HTTPGetAction) { g.HTTPHeaders = []v1.HTTPHeader{{Name: "a b"}} }), `httpHeaders[0].name "a b"`},
		"header value": {port(intstr.FromInt32(80), func(g *v1.HTTPGetAction) {
			g.HTTPHeaders = []v1.HTTPHeader{{Name: "A", Value: "x\r\nB: s3cret"}}
		}), "httpHeaders[0].value contains a line break"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRunner(t, hook.Config{}).Run(t.Context(), hook.Request{Handler: tc.handler, Container: "app", PodIP: "127.0.0.1", Ports: []v1.ContainerPort{{ContainerPort: 80}}})
			if !errors.Is(err, hook.ErrInvalid) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestNothingRunsInAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRunner(t, hook.Config{Exec: execFunc(func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		t.Error("it was executed")
		return nil, nil
	})})
	if _, err := r.Run(ctx, hook.Request{Handler: exec("true"), ContainerID: "id"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Run(ctx, hook.Request{Handler: sleep(0)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNewNamesTheField(t *testing.T) {
	if _, err := hook.New(hook.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Exec") {
		t.Errorf("got %v, want an error and %q in it", err, "Config.Exec")
	}
	if _, err := hook.New(hook.Config{Exec: execFunc(noExec), MaxOutput: -1}); err == nil || !strings.Contains(err.Error(), "Config.MaxOutput") {
		t.Errorf("got %v, want an error and %q in it", err, "Config.MaxOutput")
	}
}

// An endpoint that takes a connection and then says nothing, in plain and in
// TLS, before the answer and within it.
func TestW11_HungEndpointEndsWithItsContext(t *testing.T) {
	for name, tc := range map[string]struct {
		scheme v1.URIScheme
		says   string
	}{
		"plain": {v1.URISchemeHTTP, ""},
		"tls":   {v1.URISchemeHTTPS, ""},
		"body":  {v1.URISchemeHTTP, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t, hook.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer theirs.Close()
						_, _ = theirs.Read(make([]byte, 4096))
						_, _ = theirs.Write([]byte(tc.says))
						for { // until our end is closed
							if _, err := theirs.Read(make([]byte, 4096)); err != nil {
								return
							}
						}
					}()
					return ours, nil
				}})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				_, err := r.Run(ctx, hook.Request{PodIP: "10.0.0.1", Handler: &v1.LifecycleHandler{
					HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80), Scheme: tc.scheme},
				}})
				if took := time.Since(start); took != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v after %v, want %v and error %v", err, took, 3*time.Second, context.DeadlineExceeded)
				}
			})
		})
	}
}

// The same on sockets of the system, in plain and in TLS, before anything was
// answered: the connection is closed, and the bubble ends only when every
// goroutine has.
func TestW11_NoGoroutineIsLeft(t *testing.T) {
	for _, scheme := range []v1.URIScheme{v1.URISchemeHTTP, v1.URISchemeHTTPS} {
		synctest.Test(t, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			must.Do(t, err)
			defer lis.Close()
			ctx, cancel := context.WithCancel(t.Context())
			hungUp := make(chan struct{})
			go func() {
				defer close(hungUp)
				defer cancel()
				conn, err := lis.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1)) // the server has got the request,
				cancel()                          // and the caller cancels it
				_, _ = io.Copy(io.Discard, conn)  // and hangs up
			}()
			_, err = newRunner(t, hook.Config{}).Run(ctx, hook.Request{PodIP: "127.0.0.1", Handler: &v1.LifecycleHandler{
				HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(int32(lis.Addr().(*net.TCPAddr).Port)), Scheme: scheme},
			}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", scheme, err)
			}
			<-hungUp
		})
	}
}
