package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func volumes(n *node, a *agent) {
	host := n.TempDir()
	must.Do(n, os.WriteFile(filepath.Join(host, "there"), []byte("from the host"), 0o644))
	p := a.pod(n, "volumes", `
volumes:
- {name: scratch, emptyDir: {}}
- {name: host, hostPath: {path: `+host+`, type: Directory}}
- {name: texts, configMap: {name: texts}}
- {name: words, secret: {secretName: words, defaultMode: 0400}}
- {name: about, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
- name: all
  projected: {sources: [{configMap: {name: texts, items: [{key: motto, path: deep/motto}]}}, {secret: {name: words}}]}
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sh, -c, "echo from the app > /scratch/x; echo from the app > /host/x; sleep infinity"]
  volumeMounts:
  - {name: scratch, mountPath: /scratch}
  - {name: host, mountPath: /host}
  - {name: texts, mountPath: /texts}
  - {name: texts, mountPath: /one, subPath: greeting}
  - {name: words, mountPath: /words}
  - {name: about, mountPath: /about}
  - {name: all, mountPath: /all}
- name: other
  image: localhost/busybox:e2e
  command: [sleep, infinity]
  volumeMounts: [{name: scratch, mountPath: /scratch, readOnly: true}]
`)
	app, other := p.running("app", 0), p.running("other", 0)
	for _, f := range []struct{ path, text string }{
		{"/host/there", "from the host"},
		{"/texts/greeting", "hello"}, {"/texts/motto", "onward"}, {"/one", "hello"},
		{"/words/word", "sesame"}, {"/about/name", p.name},
		{"/all/deep/motto", "onward"}, {"/all/word", "sesame"},
	} {
		if got := p.exec(app, "cat", f.path); got != f.text {
			n.Errorf("%s holds %q, not %q", f.path, got, f.text)
		}
	}
	if got := p.exec(other, "sh", "-c", "until cat /scratch/x; do sleep 0.1; done; touch /scratch/y 2> /dev/null || echo read-only"); got != "from the app\nread-only\n" {
		n.Errorf("the other container says %q", got)
	}
	if got := p.exec(app, "stat", "-Lc", "%a", "/words/word"); got != "400\n" {
		n.Errorf("the secret's mode is %s", got)
	}
	p.delete()
	p.gone()
	if text, err := os.ReadFile(filepath.Join(host, "x")); string(text) != "from the app\n" {
		n.Errorf("on the host there is %q, %v", text, err)
	}
}

// A mount that the node makes in a volume appears in a running container that requests propagation, even on a node whose
// mounts are private, because the agent shares its root.
func mountsPropagate(n *node, a *agent) {
	p := a.pod(n, "mounts-propagate", `
volumes: [{name: scratch, emptyDir: {}}]
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sleep, infinity]
  volumeMounts:
  - {name: scratch, mountPath: /follows, mountPropagation: HostToContainer}
  - {name: scratch, mountPath: /private}
`)
	app := p.running("app", 0)
	late := filepath.Join(n.root, "pods", app.GetLabels()[runtime.LabelPodUID], "volumes/kubernetes.io~empty-dir/scratch/late")
	must.Do(n, os.Mkdir(late, 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", late).CombinedOutput(); err != nil {
		n.Fatalf("%v: %s", err, out)
	}
	must.Do(n, os.WriteFile(filepath.Join(late, "file"), []byte("late"), 0o644))
	if got := p.exec(app, "sh", "-c", "cat /follows/late/file; ls /private/late"); got != "late" {
		n.Errorf("the container says %q, want late", got)
	}
	if out, err := exec.Command("umount", late).CombinedOutput(); err != nil {
		n.Errorf("%v: %s", err, out)
	}
	p.delete()
	p.gone()
}

// The files of a pod with an fsGroup are for it, and change while it runs.
func volumesChange(n *node, a *agent) {
	live := func(text string) {
		n.write("live.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: live, namespace: "+namespace+"}, data: {text: "+text+"}}\n")
	}
	live("one")
	n.Cleanup(func() { n.remove("live.yaml") })
	p := a.pod(n, "volumes-change", `
securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
volumes:
- {name: live, configMap: {name: live}}
- {name: words, secret: {secretName: words, defaultMode: 0400}}
- {name: scratch, emptyDir: {}}
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sh, -c, "echo mine > /scratch/x; sleep infinity"]
  volumeMounts:
  - {name: live, mountPath: /live}
  - {name: live, mountPath: /one, subPath: text}
  - {name: words, mountPath: /words}
  - {name: scratch, mountPath: /scratch}
`)
	app := p.running("app", 0)
	if got := p.exec(app, "sh", "-c", "until [ -s /scratch/x ]; do sleep 0.1; done; cat /words/word; stat -Lc ' %a %u:%g' /words/word /scratch /scratch/x"); got != "sesame 440 0:2000\n 2777 0:2000\n 644 1000:2000\n" {
		n.Errorf("the volumes are %q", got)
	}
	live("two")
	n.eventually(func() error {
		if got := p.exec(app, "cat", "/live/text"); got != "two" {
			return fmt.Errorf("/live/text holds %q", got)
		}
		return nil
	})
	if got := p.exec(app, "cat", "/one"); got != "one" {
		n.Errorf("the file that a subPath mounts holds %q", got)
	}
	if runs := p.runs("app"); len(runs) != 1 || runs[0].GetId() != app.GetId() {
		n.Errorf("the container did not run on: %v", runs)
	}
}
