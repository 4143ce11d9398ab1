package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// kubectl reaches the pods of an agent in memory through an API server, as it reaches those of a kubelet.
func TestKubectl(t *testing.T) {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("no kubectl on this machine")
	}
	n := inMemory(t)
	const script = `echo begun; echo again; httpd & read line; echo "got $line"`
	pod := n.pod("web", "sh", "-c", script)
	pod.Spec.Containers[0].Stdin, pod.Spec.Containers[0].StdinOnce = true, true
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(port)}}, PeriodSeconds: 1,
	}
	n.start(t, pod)
	api := httptest.NewServer(apiServer(t, n))
	t.Cleanup(api.Close)
	kubectl := func(t *testing.T, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, program, append([]string{"--server", api.URL, "--cache-dir", t.TempDir()}, args...)...)
		cmd.Env, cmd.WaitDelay = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}, time.Second
		return cmd
	}
	t.Run("port-forward", func(t *testing.T) {
		cmd := kubectl(t, "port-forward", "web", ":8080")
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // the test has ended it
		}()
		line := make([]byte, 200)
		read := must.Get(out.Read(line))(t)
		found := regexp.MustCompile(`127\.0\.0\.1:(\d+) -> 8080`).FindSubmatch(line[:read])
		if found == nil {
			t.Fatalf("%q, want the address", line[:read])
		}
		if got := ask(t, uint16(must.Get(strconv.ParseUint(string(found[1]), 10, 16))(t))); !strings.Contains(got, " 404 ") {
			t.Errorf("%q, want %q in it", got, " 404 ")
		}
	})
	for _, tt := range []struct{ args, input, want string }{
		{args: "get pods -o jsonpath={.items[*].metadata.name},{.items[*].status.phase}", want: `^web,Running$`},
		{args: "get pod web -o jsonpath={.status.containerStatuses[0].image}", want: `registry.test/app:1`},
		{args: "logs web", want: `^begun\nagain\n$`},
		{args: "logs web --tail=1 --timestamps", want: `^\d{4}-\S+Z again\n$`},
		{args: "exec web -- sh -c", input: "echo out; exit 7", want: `^out\n(?s).*exit code 7\n$`},
		{args: "exec -i web -- cat", want: `^typed\n$`, input: "typed\n"},
		{args: "exec web -c none -- true", want: `container(?s).*none`},
		// The program ends with its line.
		{args: "attach -i -q web", input: "hello\n", want: `got hello\n`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			cmd := kubectl(t, args...)
			if args[len(args)-1] == "-c" {
				cmd.Args = append(cmd.Args, tt.input)
			} else {
				cmd.Stdin = strings.NewReader(tt.input)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			ended := cmd.Run() // its exit code is that of the command, and 1 after an error
			if !regexp.MustCompile(tt.want).Match(out.Bytes()) {
				t.Errorf("%v, got\n%swant a match of %s", ended, &out, tt.want)
			}
		})
	}
}

// apiServer answers kubectl as an API server with one node does: it passes streams and logs to the agent's server.
func apiServer(t *testing.T, n *node) http.Handler {
	t.Helper()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // kubectl may be gone
	}
	type meta = metav1.TypeMeta
	pods := func() *v1.PodList {
		list := &v1.PodList{TypeMeta: meta{Kind: "PodList", APIVersion: "v1"}}
		for _, p := range n.agent.Pods() {
			pod := p.Pod.DeepCopy()
			pod.TypeMeta, pod.Status = meta{Kind: "Pod", APIVersion: "v1"}, p.Status
			list.Items = append(list.Items, *pod)
		}
		return list
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIVersions{TypeMeta: meta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIGroupList{TypeMeta: meta{Kind: "APIGroupList", APIVersion: "v1"}})
	})
	mux.HandleFunc("GET /api/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, metav1.APIResourceList{TypeMeta: meta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get", "list"}, ShortNames: []string{"po"}},
		}})
	})
	const all = "/api/v1/namespaces/default/pods"
	mux.HandleFunc("GET "+all, func(w http.ResponseWriter, _ *http.Request) { answer(w, pods()) })
	mux.HandleFunc("GET "+all+"/{pod}", func(w http.ResponseWriter, _ *http.Request) { answer(w, pods().Items[0]) })
	agent := must.Get(url.Parse(n.config.Host))(t)
	config := rest.CopyConfig(n.config)
	config.NextProtos = []string{"http/1.1"} // which can be upgraded
	proxy := &httputil.ReverseProxy{
		Transport: must.Get(rest.TransportFor(config))(t),
		Rewrite: func(r *httputil.ProxyRequest) {
			query := r.In.URL.Query()
			for api, kubelet := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error"} {
				if query.Get(api) == "true" {
					query.Set(kubelet, "1")
				}
				query.Del(api)
			}
			what, pod, container := r.In.PathValue("what"), r.In.PathValue("pod"), query.Get("container")
			query.Del("container")
			to := map[string]string{"log": "containerLogs", "portforward": "portForward"}[what]
			if to == "" {
				to = what
			}
			to = "/" + to + "/default/" + pod
			if what != "portforward" {
				to += "/" + container
			}
			r.Out.URL = &url.URL{Scheme: agent.Scheme, Host: agent.Host, Path: to, RawQuery: query.Encode()}
			r.Out.Host = ""
		},
	}
	mux.Handle(all+"/{pod}/{what}", proxy)
	return mux
}
