package source_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/syncpod/source"
)

// What a folder of manifests says, with what is wrong in it.
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

// An agent that runs what it ran when it is started without its server.
func ExampleRemembered() {
	server := source.NewPush() // what a program hears of its server
	remembered, err := source.NewRemembered(source.RememberedConfig{
		Source: server,
		Path:   "/var/lib/my-agent/remembered",
		Key:    make([]byte, 32), // of a TPM, for example; without one no Secret is remembered
	})
	if err != nil {
		log.Fatal(err)
	}
	// It takes the place of server in loop.Config.Sources.
	fmt.Println(remembered.Name())
	// Output: api
}
