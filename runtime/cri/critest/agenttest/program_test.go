package agenttest

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestItselfAsAnAgent is not a test but a program: the naive agent, with an endpoint and a folder of
// manifests.
func TestItselfAsAnAgent(t *testing.T) {
	if flag.NArg() != 2 {
		t.Skip("run by TestProgram")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conn, err := grpc.NewClient(flag.Arg(0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Attempts begin above those of any earlier process.
	h := &hand{rt: runtimeapi.NewRuntimeServiceClient(conn), attempts: uint32(time.Now().Unix())}
	for ctx.Err() == nil {
		naive(ctx, h, podsIn(t, flag.Arg(1)))
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func podsIn(t *testing.T, folder string) (pods []*v1.Pod) {
	files, err := filepath.Glob(filepath.Join(folder, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // the file was removed in the meantime
		}
		p := new(v1.Pod)
		if err != nil || json.Unmarshal(text, p) != nil {
			t.Fatalf("%s: %v, or no pod: %q", file, err, text)
		}
		pods = append(pods, p)
	}
	return pods
}

// A program is started, gets its pods from its folder, is killed and is stopped, in real time.
func TestProgram(t *testing.T) {
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "p") // short, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var said []Progress
	report, err := Judge(t.Context(), Config{
		Agent:    Program{Command: []string{itself, "-test.run=^TestItselfAsAnAgent$", "{endpoint}", "{manifests}"}}.Agent,
		Dir:      dir,
		Parallel: 2,
		Progress: func(p Progress) { said = append(said, p) },
		Scenarios: []Scenario{
			{Name: "killed", Steps: append(adding("web", "two"), Step{After: 2, Do: "kill-agent"}, Step{Do: "start-agent"}, Step{After: 1, Do: "remove", Pod: "web"})},
			{Name: "over", Steps: append(adding("web"), Step{After: 2, Do: "exit", Pod: "web", Container: "c0", N: 3})},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if broken, failed := report.Broken(), report.Failed(); len(broken) > 0 || len(failed) > 0 {
		t.Errorf("broken are %+v, not played %+v", broken, failed)
	}
	for _, o := range report.Outcomes {
		if slices.Contains([]string{"adopts", "arrives", "nothing-left", "restarts", "one-instance"}, o.Promise) && o.State != Kept {
			t.Errorf("%s is %s", o.Promise, o.State)
		}
	}
	if len(said) != 4 || said[3].Done != 2 || said[3].All != 2 {
		t.Errorf("the progress was %+v", said)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
}

// A program that cannot be started is reported, and so is one that ends by itself.
func TestProgramThatDoesNotRun(t *testing.T) {
	for want, command := range map[string][]string{
		"Program.Command is missing":    nil,
		"no such file or directory":     {"/no/such/agent"},
		"/bin/true has ended by itself": {"/bin/true"},
	} {
		report, err := Judge(t.Context(), Config{
			Agent: Program{Command: command}.Agent, Patience: time.Second, Scenarios: []Scenario{{Name: "x", Steps: []Step{{After: 1, Do: "kill-agent"}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if failed := report.Failed(); len(failed) != 1 || !strings.Contains(failed[0].Err, want) {
			t.Errorf("want %q, got %+v", want, failed)
		}
	}
}
