package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/websocket"
)

// hostile clears a terminal, changes its title and colour, turns the direction of the text, and forges a line.
const hostile = "\x1b[2J\x1b]0;owned\x07\u009b31m\u009d0;x\u009c\u202ecba\u2066\x7f\x08\r\nforged  Pod web is healthy"

// wantHarmless fails if a terminal would obey a part of the output, or show the forged line as a line.
func wantHarmless(t *testing.T, what, output string) {
	t.Helper()
	for _, c := range output {
		if c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)) {
			t.Errorf("%s prints %U: %q", what, c, output)
			return
		}
	}
	if strings.Contains(output, "\nforged") || !strings.Contains(output, "forged") {
		t.Errorf("%s: %q, want the text of the other line, and not as a line", what, output)
	}
}

// hostileAgent answers each request with the hostile text.
func hostileAgent(t *testing.T, code int) (endpoint string) {
	t.Helper()
	answer := func(value any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if code != http.StatusOK {
				http.Error(w, hostile, code)
				return
			}
			if text, ok := value.(string); ok {
				fmt.Fprint(w, text)
			} else if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Error(err)
			}
		}
	}
	stream := func(channel byte, texts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if code != http.StatusOK {
				http.Error(w, hostile, code)
				return
			}
			conn, read, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			ws, _, err := websocket.Accept(conn, read.Reader, r, "v4.channel.k8s.io")
			if err != nil {
				t.Error(err)
				return
			}
			defer ws.Close()
			for _, text := range texts {
				if err := ws.Write([]byte{channel}, []byte(text)); err != nil {
					t.Error(err)
				}
			}
			_, _ = ws.Read() // until the command has read all
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/pods", answer(v1.PodList{Items: []v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: hostile}}},
		Status:     v1.PodStatus{Reason: hostile, Message: hostile},
	}, {ObjectMeta: metav1.ObjectMeta{Name: hostile, Namespace: hostile}}}}))
	mux.HandleFunc("/stats/summary", answer(usages{Node: usage{NodeName: hostile}, Pods: []usage{{PodRef: struct{ Namespace, Name string }{"default", hostile}}}}))
	// The server has escaped line feeds of others in an explanation.
	mux.HandleFunc("/explain/", answer(strings.ReplaceAll(hostile, "\n", `\n`)))
	mux.HandleFunc("/timeline", answer(map[string]string{"name": hostile}))
	status, err := json.Marshal(metav1.Status{Status: metav1.StatusFailure, Message: hostile})
	if err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("/exec/", stream(3, string(status)))
	mux.HandleFunc("/attach/", stream(3, string(status)))
	mux.HandleFunc("/portForward/", stream(1, "80", hostile))
	mux.HandleFunc("/", answer(hostile))
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: mux}
	go web.Serve(lis)
	t.Cleanup(func() { web.Close() })
	return "unix://" + path
}

func TestCommandsPrintNothingThatATerminalObeys(t *testing.T) {
	ready, refusing := hostileAgent(t, http.StatusOK), hostileAgent(t, http.StatusForbidden)
	run := func(endpoint string, args ...string) string {
		var out heard
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := runCommand(ctx, append([]string{args[0], "-serve", endpoint}, args[1:]...), console{nil, &out, &out})
		return out.String() + foreign.Text(fmt.Sprint("nodeagent: ", err)) // as main prints it
	}
	for _, args := range [][]string{
		{"get"}, {"get", "web"}, {"get", "-o", "json"}, {"get", "-o", "yaml"}, {"explain", "web"}, {"top"}, {"timeline"}, {"timeline", "-o", "trace"},
		{"exec", "web", "--", "a"}, {"attach", "web"}, {"exec", "forged"}, {"logs", "web"},
	} {
		if args[0] != "logs" { // a log and the output of a command are what the container prints, as with kubectl
			wantHarmless(t, strings.Join(args, " "), run(ready, args...)+" forged")
		}
		wantHarmless(t, strings.Join(args, " ")+", refused", run(refusing, args...)+" forged")
	}
	for what, args := range map[string][]string{"the table": {"get"}, "top": {"top"}, "exec": {"exec", "web", "--", "a"}, "attach": {"attach", "web"}, "explain": {"explain", "web"}} {
		if got := run(ready, args...); !strings.Contains(got, "owned") {
			t.Errorf("%s does not have the text: %q", what, got)
		}
	}
	var pods v1.PodList
	text, _, _ := strings.Cut(run(ready, "get", "-o", "json"), "nodeagent:")
	if err := json.Unmarshal([]byte(text), &pods); err != nil || pods.Items[0].Status.Message != hostile {
		t.Errorf("get -o json: %v, %q, want the value of the API", err, text)
	}
}

// A port that fails prints the runtime's error.
func TestErrorsOfPortsAreHarmless(t *testing.T) {
	for name, code := range map[string]int{"error": http.StatusOK, "refused": http.StatusForbidden} {
		var errs heard
		l := &invocation{serve: hostileAgent(t, code), console: console{nil, &errs, &errs}}
		here, there := net.Pipe()
		err := l.forward(t.Context(), here, "/portForward/default/web?port=80")
		here.Close()
		there.Close()
		wantHarmless(t, name, fmt.Sprint(err))
	}
}

func TestScreensPrintNothingThatATerminalObeys(t *testing.T) {
	for name, f := range map[string]format{"lines": lines, "table": table, "JSON": jsonLines} {
		var out bytes.Buffer
		s := screenOn(&out, f, 0, 0)
		s.say("%s", hostile)
		s.Eventf(&v1.ObjectReference{Name: hostile, Namespace: hostile, FieldPath: "spec.containers{" + hostile + "}"}, hostile, hostile, "%s", hostile)
		o := observer{screen: s, printed: map[types.UID]row{}}
		pod := aPod(v1.PodRunning, nil, container(hostile, isWaiting(hostile)))
		pod.Name, pod.Status.Message = hostile, hostile
		if f == table {
			s.show(rowsOf([]v1.Pod{*pod}), 0)
		} else {
			o.printChanges([]v1.Pod{*pod})
		}
		s.close("%s", hostile)
		text := out.String()
		if f == table { // it draws itself in place
			text = strings.NewReplacer("\r\x1b[J", "", "\r\x1b[2A\x1b[J", "").Replace(text)
		}
		wantHarmless(t, name, text)
	}
}

// Peers without a certificate cause a line a minute, however many they are and whatever their certificates say.
func TestFailedHandshakesAreReportedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		c := complaints{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		for range 600 {
			if n, err := fmt.Fprintf(&c, "http: TLS handshake error from 192.0.2.1:1: %s", hostile); err != nil || n == 0 {
				t.Fatal(n, err)
			}
			time.Sleep(time.Second / 5)
		}
		if len(said) != 2 || !strings.Contains(said[0], "(0 more") || !strings.Contains(said[1], "(299 more") {
			t.Errorf("%q, want a line a minute", said)
		}
		wantHarmless(t, "a failed handshake", said[0])
	})
}
