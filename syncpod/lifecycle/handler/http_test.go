package handler_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// endpoint is a server on the loopback that keeps the requests it gets.
type endpoint struct {
	*httptest.Server
	got []*http.Request
}

func serve(t *testing.T, tls bool, h http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.got = append(e.got, r)
		if h != nil {
			h(w, r)
		}
	}))
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tls {
		e.StartTLS()
	} else {
		e.Start()
	}
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) port() int32 {
	u, _ := url.Parse(e.URL)
	port, _ := strconv.Atoi(u.Port())
	return int32(port)
}

func (e *endpoint) get(change ...func(*v1.HTTPGetAction)) handler.Request {
	get := &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(e.port()), Scheme: v1.URISchemeHTTP}
	for _, f := range change {
		f(get)
	}
	return handler.Request{Container: "app", PodIP: "127.0.0.1", HTTPFallback: true, Handler: &v1.LifecycleHandler{HTTPGet: get}}
}

func https(g *v1.HTTPGetAction) { g.Scheme = v1.URISchemeHTTPS }

func TestHTTPGet(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "stopped") })
	req := e.get(func(g *v1.HTTPGetAction) {
		g.Path = "/stop?now=1"
		g.Port = intstr.FromString("admin")
		g.HTTPHeaders = []v1.HTTPHeader{{Name: "x-token", Value: "a"}, {Name: "X-Token", Value: "b"}, {Name: "Host", Value: "app.example"}}
	})
	req.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 1}, {Name: "admin", ContainerPort: e.port()}}
	before := *req.Handler.DeepCopy()
	result, err := newRunner(t, handler.Config{}).Run(t.Context(), req)
	if err != nil || result.StatusCode != 200 || string(result.Output) != "stopped" || result.Truncated {
		t.Fatalf("got %+v, %v, want status code 200 and %q as a whole", result, err, "stopped")
	}
	got := e.got[0]
	if got.Method != "GET" || got.URL.String() != "/stop?now=1" || got.Host != "app.example" {
		t.Errorf("it asked %s %s of %s, want Method %q and String %q and Host %q", got.Method, got.URL, got.Host, "GET", "/stop?now=1", "app.example")
	}
	if want := []string{"a", "b"}; !reflect.DeepEqual(got.Header["X-Token"], want) {
		t.Errorf("X-Token is %q, want %v", got.Header["X-Token"], want)
	}
	if got.UserAgent() != "kube-lifecycle/1.36" || got.Header.Get("Accept") != "*/*" {
		t.Errorf("header is %v, want UserAgent %q and %q", got.Header, "kube-lifecycle/1.36", "*/*")
	}
	if !reflect.DeepEqual(before, *req.Handler) {
		t.Error("the handler was changed")
	}
}

func TestHTTPGetHeaderOverrides(t *testing.T) {
	e := serve(t, false, nil)
	r := newRunner(t, handler.Config{UserAgent: "agent/1"})
	for _, value := range []string{"mine", ""} {
		must.Get(r.Run(t.Context(), e.get(func(g *v1.HTTPGetAction) {
			g.HTTPHeaders = []v1.HTTPHeader{{Name: "user-agent", Value: value}, {Name: "accept", Value: value}}
		})))(t)
	}
	must.Get(r.Run(t.Context(), e.get()))(t)
	for i, want := range []string{"mine", "", "agent/1"} {
		if got := e.got[i].UserAgent(); got != want {
			t.Errorf("User-Agent is %q, want %q", got, want)
		}
	}
	if accept, ok := e.got[1].Header["Accept"]; ok {
		t.Errorf("Accept is %q, want none", accept)
	}
}

func TestHTTPGetPaths(t *testing.T) {
	e := serve(t, false, nil)
	for path, want := range map[string]string{"": "/", "healthz": "/healthz", "/a b": "/a%20b", "/a%2Fb": "/a%2Fb",
		"mailto:x": "/mailto:x", "//elsewhere:1/x": "/x", "http://u:p@h/x#f": "/x", "/%zz": "/%25zz"} {
		e.got = nil
		_, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get(func(g *v1.HTTPGetAction) { g.Path = path }))
		if err != nil || len(e.got) != 1 || e.got[0].RequestURI != want {
			t.Errorf("%q: got %v, %v, want %s", path, e.got, err, want)
		}
	}
}

func TestHTTPGetAddress(t *testing.T) {
	var asked []string
	r := newRunner(t, handler.Config{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		asked = append(asked, network+" "+address)
		return nil, errors.New("refused")
	}})
	get := func(host, podIP string) error {
		_, err := r.Run(t.Context(), handler.Request{PodIP: podIP, Handler: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Host: host, Port: intstr.FromString("8080")}}})
		return err
	}
	if err := get("", "fd00::1"); !errors.Is(err, handler.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	if err := get("10.0.0.9", "10.0.0.1"); !errors.Is(err, handler.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	if err := get("", ""); !errors.Is(err, handler.ErrNoAddress) {
		t.Errorf("without an address: %v", err)
	}
	if want := []string{"tcp [fd00::1]:8080", "tcp 10.0.0.9:8080"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("dialed %q, want %q", asked, want)
	}
}

// Like a kubelet, the handler ignores the response's status code.
func TestHTTPGetTakesAnyStatus(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	result, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get())
	if err != nil || result.StatusCode != 500 {
		t.Errorf("got %+v, %v, want 500 and no error", result, err)
	}
}

// The rest of a body is not waited for, and not received.
func TestHTTPGetBodyIsBounded(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write(bytes.Repeat([]byte("x"), handler.DefaultMaxOutput+1)); err != nil {
			t.Error(err)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a runner that does wait
	defer cancel()
	result, err := newRunner(t, handler.Config{}).Run(ctx, e.get())
	if err != nil || len(result.Output) != handler.DefaultMaxOutput || !result.Truncated {
		t.Errorf("got %d bytes, truncated %v, %v", len(result.Output), result.Truncated, err)
	}
}

// Headers without end, and responses before the response, are not received.
func TestHTTPGetHeaderIsBounded(t *testing.T) {
	for _, part := range []string{"X-A: 1\r\n", "X-A: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n", "x"} {
		const enough = 1 << 20
		sent := make(chan int, 1)
		r := newRunner(t, handler.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(theirs))
				n, err := io.WriteString(theirs, "HTTP/1.1 103 Early Hints\r\n")
				for more := 0; err == nil && n < enough; n += more {
					more, err = io.WriteString(theirs, part)
				}
				_ = theirs.Close()
				sent <- n
			}()
			return ours, nil
		}})
		result, err := r.Run(t.Context(), handler.Request{Container: "app", PodIP: "10.0.0.1", Handler: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}})
		if n := <-sent; !errors.Is(err, handler.ErrNoAnswer) || n > 128<<10 {
			t.Errorf("%q without end: %d bytes were received, %+v, %v", part, n, result, err)
		}
	}
}

func TestHTTPSIsNotVerified(t *testing.T) {
	e := serve(t, true, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	result, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get(https))
	if err != nil || string(result.Output) != "ok" || result.HTTPFallback {
		t.Errorf("got %+v, %v, want %q without a fallback to HTTP", result, err, "ok")
	}
}

func TestHTTPSFallsBackWithoutCredentials(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") })
	result, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get(https, func(g *v1.HTTPGetAction) {
		g.HTTPHeaders = []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer s3cret"}, {Name: "X", Value: "y"}}
	}))
	if err != nil || string(result.Output) != "plain" || !result.HTTPFallback {
		t.Fatalf("got %+v, %v, want %q by a fallback to HTTP", result, err, "plain")
	}
	if h := e.got[0].Header; h.Get("Authorization") != "" || h.Get("X") != "y" {
		t.Errorf("header is %v, want %q and %q", h, "", "y")
	}
}

// TestHTTPSOfAProbeDoesNotFallBack: only handlers ask for it, as with a kubelet.
func TestHTTPSOfAProbeDoesNotFallBack(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") })
	req := e.get(https)
	req.HTTPFallback = false
	if result, err := newRunner(t, handler.Config{}).Run(t.Context(), req); !errors.Is(err, handler.ErrNoAnswer) || len(e.got) != 0 {
		t.Errorf("got %+v, %v, and %d requests in plain HTTP, want an error and none", result, err, len(e.got))
	}
}

func TestHTTPGetRedirects(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			w.Header().Set("Location", "/loop")
		case "/twice":
			w.Header().Set("Location", "once")
		case "/once":
			w.Header().Set("Location", "http://"+r.Host+"/end")
		case "/away":
			w.Header().Set("Location", "http://localhost/end")
		case "/broken":
			w.Header().Set("Location", "http://[s3cret")
		default:
			fmt.Fprint(w, "end")
			return
		}
		w.WriteHeader(302)
	})
	r := newRunner(t, handler.Config{})
	run := func(path string) (handler.Result, error) {
		e.got = nil
		return r.Run(t.Context(), e.get(func(g *v1.HTTPGetAction) { g.Path = path }))
	}
	if result, err := run("/twice"); err != nil || string(result.Output) != "end" || len(e.got) != 3 {
		t.Errorf("followed: %+v, %v, want output %q and 3 requests", result, err, "end")
	}
	if _, err := run("/loop"); !errors.Is(err, handler.ErrNoAnswer) || len(e.got) != 10 {
		t.Errorf("loop: %v after %d", err, len(e.got))
	}
	if result, err := run("/away"); err != nil || result.StatusCode != 302 || !result.OtherHost || len(e.got) != 1 {
		t.Errorf("away: %+v, %v, want status code 302 from another host, and one request", result, err)
	}
	if _, err := run("/broken"); !errors.Is(err, handler.ErrNoAnswer) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("broken: %v, want error %v and no %q in it", err, handler.ErrNoAnswer, "s3cret")
	}
}

// A redirect from https to http must not carry the credentials along.
func TestRedirectToPlainHTTPDropsCredentials(t *testing.T) {
	plain := serve(t, false, nil)
	secure := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusTemporaryRedirect)
	})
	_, err := newRunner(t, handler.Config{}).Run(t.Context(), secure.get(https, func(g *v1.HTTPGetAction) {
		g.HTTPHeaders = []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer s3cret"}}
	}))
	if err != nil || len(plain.got) != 1 || plain.got[0].Header.Get("Authorization") != "" || secure.got[0].Header.Get("Authorization") == "" {
		t.Errorf("got %v, %v, want one request, without the credentials that the first one had", err, plain.got)
	}
}

// Any other redirect on the host does, and asks the endpoint it leads to by its name.
func TestRedirectToAnotherPort(t *testing.T) {
	for name, encrypted := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			end := serve(t, encrypted, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "end") })
			first := serve(t, false, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, end.URL, http.StatusFound) })
			result, err := newRunner(t, handler.Config{}).Run(t.Context(), first.get(func(g *v1.HTTPGetAction) {
				for _, name := range []string{"Authorization", "proxy-authorization", "Cookie", "X"} {
					g.HTTPHeaders = append(g.HTTPHeaders, v1.HTTPHeader{Name: name, Value: "Bearer s3cret"})
				}
			}))
			if err != nil || string(result.Output) != "end" || first.got[0].Header.Get("Authorization") == "" || end.got[0].Header.Get("X") == "" || len(end.got[0].Header["Authorization"])+len(end.got[0].Header["Proxy-Authorization"])+len(end.got[0].Header["Cookie"]) != 0 || !strings.HasSuffix(end.URL, end.got[0].Host) {
				t.Errorf("got %+v, %v, asked %v", result, err, end.got)
			}
		})
	}
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "ftp://127.0.0.1/")
		w.WriteHeader(http.StatusFound)
	})
	if result, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get()); err != nil || result.StatusCode != http.StatusFound || result.OtherHost || len(e.got) != 1 {
		t.Errorf("another scheme: %+v, %v", result, err)
	}
}

func TestAnswersOfAnEndpointStayOutOfErrors(t *testing.T) {
	for name, says := range map[string]string{
		"no HTTP":     "s3cret\r\n\r\n",
		"bad header":  "HTTP/1.1 200 OK\r\ns3cret\r\n\r\n",
		"bad length":  "HTTP/1.1 200 OK\r\nContent-Length: s3cret\r\n\r\n",
		"huge header": "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("s3cret", 1<<15),
		"nothing":     "",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, handler.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = http.ReadRequest(bufio.NewReader(theirs))
					_, _ = io.WriteString(theirs, says)
				}()
				return ours, nil
			}})
			_, err := r.Run(t.Context(), handler.Request{PodIP: "10.0.0.1", Handler: &v1.LifecycleHandler{
				HTTPGet: &v1.HTTPGetAction{Path: "/?token=s3cret", Port: intstr.FromInt32(80)},
			}})
			if !errors.Is(err, handler.ErrNoAnswer) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want error %v and no %q in it", err, handler.ErrNoAnswer, "s3cret")
			}
		})
	}
}

// The errors of package x509 repeat a certificate that cannot be parsed.
func TestCertificatesStayOutOfErrors(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(t, err)
	const uri = 6 // of a subject alternative name
	names := must.Get(asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: uri, Bytes: []byte("http://%zz/" + strings.Repeat("s3cret", 5<<10))}}))(t)
	cert := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: names}},
	}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key))(t)
	r := newRunner(t, handler.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}).HandshakeContext(t.Context())
		}()
		return ours, nil
	}})
	_, err = r.Run(t.Context(), handler.Request{PodIP: "10.0.0.1", Handler: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(443), Scheme: v1.URISchemeHTTPS}}})
	if !errors.Is(err, handler.ErrNoAnswer) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%.300s of %d bytes, want an error %v without the certificate", err, len(fmt.Sprint(err)), handler.ErrNoAnswer)
	}
}

func TestInterimAnswersAreSkipped(t *testing.T) {
	e := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "end")
	})
	result, err := newRunner(t, handler.Config{}).Run(t.Context(), e.get())
	if err != nil || result.StatusCode != 200 || string(result.Output) != "end" {
		t.Errorf("got %+v, %v, want StatusCode 200 and Output %q and no error", result, err, "end")
	}
}
