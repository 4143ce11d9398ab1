package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

type noExec struct{}

func (noExec) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return nil, status.Error(codes.Unavailable, "no exec here")
}

// floods is a runtime whose answers are larger than is accepted.
type floods struct{}

func (floods) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return nil, status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
}

// The output of its probe command does not let a container turn off its liveness probe.
func TestExecThatPrintsTooMuchFails(t *testing.T) {
	p := must.Get(New(Config{Exec: floods{}}))(t)
	o := p.checker.outcome(t.Context(), Request{
		Container: "app", ContainerID: "a", Probe: limited(&v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"yes"}}}}, 60),
	})
	if o.unknown {
		t.Error("the output does not mention it")
	}
	wantOutcome(t, "a flood", o.failure, "printed more")
}

// limited returns a probe with a timeout.
func limited(p *v1.Probe, seconds int32) *v1.Probe {
	p = p.DeepCopy()
	p.TimeoutSeconds = seconds
	return p
}

func proberOf(t *testing.T) *Manager {
	t.Helper()
	p := must.Get(New(Config{Exec: noExec{}}))(t)
	return p
}

// ask checks a handler at an address.
func ask(t *testing.T, h v1.ProbeHandler, ports ...v1.ContainerPort) string {
	t.Helper()
	o := proberOf(t).checker.outcome(t.Context(), Request{
		Container: "app", Ports: ports, ContainerID: "a", PodIP: "127.0.0.1", Probe: limited(&v1.Probe{ProbeHandler: h}, 60),
	})
	if o.unknown {
		return "unknown"
	}
	return o.failure
}

func wantOutcome(t *testing.T, what, got, want string) {
	t.Helper()
	if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func portOfListener(t *testing.T, l net.Listener) int {
	t.Helper()
	return l.Addr().(*net.TCPAddr).Port
}

func TestHTTPGet(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Path[1:])
		if code == 302 {
			http.Redirect(w, r, "/500", code)
			return
		}
		if code == 307 {
			http.Redirect(w, r, "http://other.invalid/", code)
			return
		}
		w.WriteHeader(code)
		fmt.Fprint(w, r.UserAgent())
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	port := portOfListener(t, server.Listener)
	for path, want := range map[string]string{
		"/200": "", "/204": "", "/399": "", "/307": "", "/101": "HTTP 101",
		"/400": "the answer was HTTP 400", "/503": "HTTP 503", "/302": "HTTP 500",
	} {
		wantOutcome(t, path, ask(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}}, v1.ContainerPort{Name: "web", ContainerPort: int32(port)}), want)
	}
	wantOutcome(t, "HTTPS of a server without it", ask(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/200", Port: intstr.FromInt(port), Scheme: v1.URISchemeHTTPS}}), "plain HTTP")
	wantOutcome(t, "a port that is not there", ask(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("db")}}), "unknown")
}

// Only the body of such a redirect appears in the probe's message, up to the
// limit.
func TestRedirectToAnotherHostIsReported(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(path, location, body string, code int) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		})
	}
	answer("/away", "http://other.invalid/", "gone there", 302)
	answer("/long", "http://other.invalid/", "x"+strings.Repeat("é", maxBody)+"s3cret", 308)
	answer("/within", "/ok", "s3cret", 302)
	answer("/ftp", "ftp://127.0.0.1/", "s3cret", 302)
	answer("/304", "", "", 304)
	answer("/ok", "", "s3cret", 200)
	server := httptest.NewServer(mux)
	defer server.Close()
	port := intstr.FromInt32(int32(portOfListener(t, server.Listener)))
	var told []string
	p := must.Get(New(Config{Exec: noExec{}, Warning: func(pod *v1.Pod, container string, kind Kind, message string) {
		told = append(told, fmt.Sprint(pod.Name, " ", container, " ", kind, " ", message))
	}}))(t)
	spec, container := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, &v1.Container{Name: "app"}
	const start = "web app Liveness Liveness probe warning: Probe terminated redirects, Response body: "
	for path, want := range map[string]string{
		"/away": start + "gone there", "/long": start + "x" + strings.Repeat("é", maxBody/2-1),
		"/within": "", "/ftp": "", "/304": "", "/ok": "",
	} {
		told = nil
		h := v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: port}}
		o := p.checker.outcome(t.Context(), Request{Container: container.Name, PodIP: "127.0.0.1", Probe: limited(&v1.Probe{ProbeHandler: h}, 60)})
		p.notify(&probe{container: container, key: key{kind: Liveness}}, spec, o)
		if got := strings.Join(told, "\n"); got != want || o.failure != "" {
			t.Errorf("%s: %q and %q, want %q", path, got, o.failure, want)
		}
	}
}

func TestTCPSocket(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := portOfListener(t, l)
	tcp := func(port intstr.IntOrString) v1.ProbeHandler {
		return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}
	}
	wantOutcome(t, "open", ask(t, tcp(intstr.FromInt32(int32(port)))), "")
	wantOutcome(t, "open, by its name", ask(t, tcp(intstr.FromString("db")), v1.ContainerPort{Name: "db", ContainerPort: int32(port)}), "")
	wantOutcome(t, "open, by a number in words", ask(t, tcp(intstr.FromString(strconv.Itoa(port)))), "")
	wantOutcome(t, "no port", ask(t, tcp(intstr.FromString("db"))), "unknown")
	other := v1.ContainerPort{Name: "other", ContainerPort: 1}
	wantOutcome(t, "open, among others", ask(t, tcp(intstr.FromString("db")), other, v1.ContainerPort{Name: "db", ContainerPort: int32(port)}, other), "")
	_ = l.Close()
	wantOutcome(t, "closed", ask(t, tcp(intstr.FromInt32(int32(port)))), "refused")
}

// What names a host is probed there, and in the way that the agent reaches it.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Exec: noExec{}, Dial: func(_ context.Context, _, address string) (net.Conn, error) { return nil, errors.New("not " + address) }})
		must.Do(t, err)
		port := intstr.FromInt32(80)
		for want, h := range map[string]v1.ProbeHandler{
			"not 10.0.0.9:80":         {TCPSocket: &v1.TCPSocketAction{Host: "10.0.0.9", Port: port}},
			"not 10.0.0.1:80":         {TCPSocket: &v1.TCPSocketAction{Port: port}},
			"no answer: not 10.0.0.1": {HTTPGet: &v1.HTTPGetAction{Port: port}},
			"answered Unavailable":    {GRPC: &v1.GRPCAction{Port: 80}}, // and leaves no goroutine, for which a bubble would fail
		} {
			o := p.checker.outcome(t.Context(), Request{PodIP: "10.0.0.1", Probe: limited(&v1.Probe{ProbeHandler: h}, 60)})
			wantOutcome(t, want, o.failure, want)
		}
	})
}

func TestGRPC(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server, states := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, states)
	go server.Serve(l)
	defer server.Stop()
	states.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	states.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	at := func(service *string) v1.ProbeHandler {
		return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(portOfListener(t, l)), Service: service}}
	}
	for service, want := range map[string]string{"": "", "up": "", "down": "answered with status 2", "other": "NotFound"} {
		wantOutcome(t, service, ask(t, at(&service)), want)
	}
	wantOutcome(t, "no service", ask(t, at(nil)), "")
	server.Stop()
	wantOutcome(t, "stopped", ask(t, at(nil)), "Unavailable")
}

func TestChecksThatCannotBe(t *testing.T) {
	wantOutcome(t, "no handler", ask(t, v1.ProbeHandler{}), "unknown")
	wantOutcome(t, "no command", ask(t, v1.ProbeHandler{Exec: &v1.ExecAction{}}), "unknown")
	wantOutcome(t, "an unavailable runtime", ask(t, v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}), "unknown")
	for _, h := range []v1.ProbeHandler{
		{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}, {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}, {GRPC: &v1.GRPCAction{Port: 80}},
	} {
		o := proberOf(t).checker.outcome(t.Context(), Request{Probe: limited(&v1.Probe{ProbeHandler: h}, 60)})
		wantOutcome(t, "no address", o.failure, "the pod has no address")
	}
}

// TestHealthRequest: the message that stands in for the request of a health service has the same
// bytes as the request's generated code.
func TestHealthRequest(t *testing.T) {
	for _, service := range []string{"", "up", strings.Repeat("é", 1000)} {
		got, err := proto.Marshal(&healthRequest{Version: service})
		want, wantErr := proto.Marshal(&healthpb.HealthCheckRequest{Service: service})
		if err != nil || wantErr != nil || string(got) != string(want) {
			t.Errorf("%.10q: %q, %v; want %q, %v", service, got, err, want, wantErr)
		}
	}
}
