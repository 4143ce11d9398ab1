package source_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
)

// The pods of a folder of manifests, with the errors of invalid files.
func ExampleFolder() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: nginx, image: nginx:1.29}]\n",
		"bad.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  restartPolicy: Sometimes\n  containers: [{name: nginx}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	folder, err := source.NewFolder(source.FolderConfig{Path: dir, NodeName: "edge-7"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = folder.Run(ctx, func(s source.Snapshot) {
		for _, pod := range s.Pods {
			fmt.Println(pod.Namespace, pod.Name, pod.Spec.RestartPolicy)
		}
		for _, err := range s.Errors {
			text, _ := filepath.Rel(dir, err.Error())
			fmt.Println(text)
		}
		cancel()
	})
	fmt.Println(err)
	// Output:
	// default web-edge-7 Always
	// bad.yaml: document 1: Pod default/bad: [spec.containers[0].image: Required value, spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"]
	// <nil>
}

// An agent that runs its last pods if it starts without its server.
func ExampleCheckpoint() {
	server := source.NewPush() // the program pushes its server's pods
	checkpoint, err := source.NewCheckpoint(source.CheckpointConfig{
		Source: server,
		Path:   "/var/lib/my-agent/checkpoint",
		Key:    make([]byte, 32), // of a TPM, for example; without a key the checkpoint has no Secrets
	})
	if err != nil {
		log.Fatal(err)
	}
	// It takes the place of server in agent.Config.Sources.
	fmt.Println(checkpoint.Name())
	// Output: api
}

// Pods from a server, which has them as a PodList. An error of the server stops no pod.
func ExamplePoll() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "nginx", "image": "nginx:1.29"}]}}]}`)
	}))
	defer server.Close()

	poll, err := source.NewPoll(source.PollConfig{Name: runtime.ConfigSourceHTTP, List: func(ctx context.Context) ([]*v1.Pod, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", server.URL, resp.Status)
		}
		var list v1.PodList
		err = json.NewDecoder(io.LimitReader(resp.Body, 10<<20)).Decode(&list)
		var pods []*v1.Pod
		for i := range list.Items {
			pods = append(pods, podspec.Static(&list.Items[i], "edge-7", podspec.Source{Kind: runtime.ConfigSourceHTTP, Location: server.URL}))
		}
		return pods, err
	}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = poll.Run(ctx, func(s source.Snapshot) {
		for _, pod := range s.Pods {
			fmt.Println(pod.Namespace, pod.Name, pod.Spec.RestartPolicy)
		}
		cancel()
	})
	fmt.Println(err)
	// Output:
	// default web-edge-7 Always
	// <nil>
}
