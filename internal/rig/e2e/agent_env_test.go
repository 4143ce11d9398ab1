package e2e

import (
	"context"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// objects are the ConfigMaps and Secrets that the pods refer to.
const objects = `apiVersion: v1
kind: ConfigMap
metadata: {name: texts, namespace: nodeagent}
data: {greeting: hello, motto: onward}
---
apiVersion: v1
kind: Secret
metadata: {name: words, namespace: nodeagent}
data: {word: c2VzYW1l}
`

func environment(n *node, a *agent) {
	p := a.pod(n, "environment", `
containers:
- name: app
  image: localhost/busybox:e2e
  command: [sh, -c, echo $0; sleep infinity, $(GREETING) $$(POD) $(UNKNOWN)]
  resources: {limits: {cpu: 500m, memory: 64Mi}}
  envFrom: [{prefix: TEXT_, configMapRef: {name: texts}}]
  env:
  - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  - {name: ID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
  - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}
  - {name: GREETING, valueFrom: {configMapKeyRef: {name: texts, key: greeting}}}
  - {name: WORD, valueFrom: {secretKeyRef: {name: words, key: word}}}
  - {name: NOTHING, valueFrom: {secretKeyRef: {name: none, key: none, optional: true}}}
  - {name: BOTH, value: "$(GREETING), $(NODE)"}
`)
	app := p.running("app", 0)
	env := map[string]string{}
	for l := range strings.Lines(p.exec(app, "env")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "=")
		env[name] = value
	}
	for name, want := range map[string]string{
		"POD": p.name, "NAMESPACE": namespace, "ID": app.GetLabels()[runtime.LabelPodUID], "NODE": nodeName, "IP": p.ip(),
		"CPU": "500", "MEMORY": "64", "GREETING": "hello", "TEXT_motto": "onward", "WORD": "sesame", "BOTH": "hello, " + nodeName,
		"HOSTNAME": p.name,
	} {
		if env[name] != want {
			n.Errorf("%s is %q, not %q", name, env[name], want)
		}
	}
	if value, ok := env["NOTHING"]; ok {
		n.Errorf("NOTHING is %q", value)
	}
	if got := p.awaitLog(app, 1); got[0] != "hello $(POD) $(UNKNOWN)" {
		n.Errorf("the arguments are %q", got)
	}
}

// ip returns the address of the pod's newest sandbox.
func (p *pod) ip() string {
	p.Helper()
	sandboxes := p.sandboxes()
	resp := must.Get(p.runtime.PodSandboxStatus(context.Background(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandboxes[len(sandboxes)-1].GetId()}))(p)
	return resp.GetStatus().GetNetwork().GetIp()
}
