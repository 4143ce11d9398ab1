package source_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/source"
)

const mountsSettings = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes: [{name: settings, configMap: {name: settings}}]
  containers:
  - {name: app, image: "registry.test/app:1", imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{name: settings, mountPath: /etc/app}]}
`

// settings is a ConfigMap with one file, conf.
func settings(text string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {conf: %s}}", text)
}

// A manifest of a ConfigMap is edited: the pods that mount it see that as soon as
// the file is read.
func TestFolderConfigsAreSeenAtOnce(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	wantConf := func(want string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(root, "pods/*/volumes/kubernetes.io~configmap/settings/conf"))
		if err != nil || len(files) != 1 {
			t.Fatalf("the volumes of pods are %q, %v, want one", files, err)
		}
		if got, err := os.ReadFile(files[0]); err != nil || string(got) != want {
			t.Errorf("the container reads %q, %v, want %q", got, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		folder := must.Get(source.NewFolder(source.FolderConfig{Path: dir, NodeName: "n", Rescan: 5 * time.Second}))(t)
		write("pod.yaml", mountsSettings)
		write("settings.yaml", settings("one"))
		rt := runAgent(t, root, folder.Unwatched())
		time.Sleep(6 * time.Second)
		synctest.Wait()
		wantConf("one")
		before := len(rt.Journal())
		write("settings.yaml", settings("two"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantConf("two")
		if changes := rt.Journal().After(before).Changes(); len(changes) > 0 {
			t.Errorf("the pod was disturbed:\n%v", changes)
		}
	})
}

// runAgent runs an agent on the pods, and the ConfigMaps, of a folder until the test ends.
func runAgent(t *testing.T, root string, folder *source.Folder) *critest.Runtime {
	t.Helper()
	rt, conn := critest.Start(t, critest.Config{})
	agent := must.Get(agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: root, Sources: []source.Source{folder}, NoEviction: true, // this machine may be short of something
		NoLogRotation: true, // this runtime has no log files
		Sync:          syncpod.Config{RuntimeName: "critest", Node: syncpod.Node{LogsRoot: filepath.Join(root, "logs")}, Objects: syncpod.Objects{Sources: env.Sources{ConfigMaps: folder}}},
	}))(t)
	must.Run(t, agent.Run)
	return rt
}
