package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/podspec"
)

// lookAround prints the files that a container should see of its pod's directory, and writes the secret to its termination
// message.
const lookAround = `cat /etc/hosts; cat /conf/greeting; cat /sub/greeting; ls -ld /scratch; touch /scratch/x /part/y; ls /scratch
touch /conf/x 2>/dev/null && echo WRITABLE; cat /keys/word > /dev/termination-log; exit 3`

func filesPod() *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "files", "e2e", "e2e-files"
	pod.Spec = v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever,
		HostAliases:   []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"elsewhere"}}},
		Volumes: []v1.Volume{
			{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "texts"}}}},
			{Name: "keys", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "words"}}},
			{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		},
		Containers: []v1.Container{{
			Name: "app", Image: "localhost/busybox:e2e", Command: []string{"/bin/sh", "-c", lookAround},
			VolumeMounts: []v1.VolumeMount{
				{Name: "conf", MountPath: "/conf"},
				{Name: "conf", MountPath: "/sub/greeting", SubPath: "greeting"},
				{Name: "keys", MountPath: "/keys"},
				{Name: "scratch", MountPath: "/scratch"},
				{Name: "scratch", MountPath: "/part", SubPath: "part"},
			},
		}},
	}
	return podspec.Default(pod)
}

// A container of a real runtime sees its volumes, /etc/hosts and the file for its message, and its pod leaves no mount on
// the node.
func TestFilesOfAPod(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		root, logs, pod := t.TempDir(), t.TempDir(), filesPod()
		syncer := must.Get(syncpod.New(syncpod.Config{
			Client: e.client, Owner: e.owner, Root: root, Node: syncpod.Node{LogsRoot: logs},
			Objects: syncpod.Objects{Sources: env.Sources{
				ConfigMaps: env.ConfigMapsFunc(func(context.Context, string, string) (*v1.ConfigMap, error) {
					return &v1.ConfigMap{Data: map[string]string{"greeting": "hello\n"}}, nil
				}),
				Secrets: env.SecretsFunc(func(context.Context, string, string) (*v1.Secret, error) {
					return &v1.Secret{Data: map[string][]byte{"word": []byte("sesame")}}, nil
				}),
			}},
		}))(t)
		t.Cleanup(func() {
			if err := syncer.SyncTerminatingPod(context.Background(), syncpod.Termination{Pod: pod}); err != nil {
				t.Error(err)
			}
		})
		must.Get(syncer.SyncPod(t.Context(), pod, nil))(t)
		status := awaitExit(t, e, pod)
		if message, err := os.ReadFile(filepath.Join(root, "pods/e2e-files/containers/app/00000000")); string(message) != "sesame" {
			t.Errorf("message %q, %v, want %q", message, err, "sesame")
		}
		log := must.Get(os.ReadFile(filepath.Join(logs, "e2e_files_e2e-files/app/0.log")))(t)
		for _, want := range []string{
			"# Kubernetes-managed hosts file.\n", "\tfiles\n", "192.0.2.9\telsewhere\n", "F drwxrwxrwx", " F part\n", " F x\n",
		} {
			if !strings.Contains(string(log), want) {
				t.Errorf("the log does not have %q:\n%s", want, log)
			}
		}
		if strings.Count(string(log), " F hello\n") != 2 || strings.Contains(string(log), "WRITABLE") {
			t.Errorf("the log has not\n%s", log)
		}
		must.Do(t, syncer.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod, Status: status}))
		must.Do(t, syncer.SyncTerminatedPod(t.Context(), pod, nil))
		if left, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v, want nothing", left, err)
		}
	})
}

func awaitExit(t *testing.T, e *edge, pod *v1.Pod) *runtime.PodStatus {
	t.Helper()
	for range 300 {
		status := must.Get(e.reader.PodStatus(t.Context(), pod.UID, nil))(t)
		if c := status.Latest("app"); c != nil && c.State == runtime.ContainerExited {
			if c.ExitCode != 3 {
				t.Errorf("exit code %d: %s", c.ExitCode, c.Message)
			}
			return status
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the container does not end")
	return nil
}
