package e2e

import (
	"os"
	"path/filepath"
)

func volumes(n *node, a *agent) {
	host := n.TempDir()
	n.must(os.WriteFile(filepath.Join(host, "there"), []byte("from the host"), 0o644))
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
