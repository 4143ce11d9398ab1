package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A home is the one file that has a rule. No other file of the library, of a module or of an
// example may spell the rule out.
type home struct {
	rule, file string
	// spelled matches a line that spells the rule out.
	spelled *regexp.Regexp
}

var homes = []home{
	{"a pod phase is terminal", "runtime/pod.go", regexp.MustCompile(`Pod(Succeeded|Failed) *(\|\||&&).*Pod(Succeeded|Failed)\b`)},
	{"a reason is a failed probe", "actions/reason.go", regexp.MustCompile(`\b(Liveness|Startup)Failed *(\|\||&&|,).*(Liveness|Startup)Failed\b`)},
	{"the content of a new file reaches the disk", "runtime/hostfs/durable.go", regexp.MustCompile(`OpenFile\(path, os\.O_WRONLY\|os\.O_CREATE\|os\.O_(TRUNC|EXCL)`)},
	{"the directory of a kind of volume", "syncpod/volume/volume.go", regexp.MustCompile(`"kubernetes\.io~`)},
	{"the kind of a volume", "syncpod/volume/volume.go", regexp.MustCompile(`(case|if) vol\.(HostPath|Image|EmptyDir|ConfigMap|Secret|DownwardAPI|Projected) != nil`)},
	{"a pod that may run once has run", "actions/sandbox.go", regexp.MustCompile(`func .*([rR]anItsOnce|[hH]adItsRun|HasRunOnce)\(`)},
	{"the phases of the workers are in an order", "podworkers/phase.go", regexp.MustCompile(`[<>]=? *(podworkers\.)?(Syncing|Terminating|Terminated|Finished|Orphaned|Removing|Forgotten)\b`)},
	{"the directory of pod logs", "sandbox/sandbox.go", regexp.MustCompile(`"/var/log/pods"`)},
	{"the annotation of an AppArmor profile", "syncpod/container/profiles.go", regexp.MustCompile(`DeprecatedAppArmorBetaContainerAnnotationKeyPrefix|container\.apparmor\.security`)},
	{"the involved object of events about a pod", "syncpod/podref/podref.go", regexp.MustCompile(`v1\.ObjectReference\{.*"Pod"`)},
	{"a pod in the words of a kubelet's messages", "syncpod/podref/podref.go", regexp.MustCompile(`Namespace *\+ *"\("`)},
	{"what a pod requests fits on the node", "syncpod/podspec/resources/fits.go", regexp.MustCompile(`Node didn't have enough resource`)},
	{"large structs are sorted by pointers", "internal/order/order.go", regexp.MustCompile(`(sorted|pointers)\[i\] = &`)},
	{"the conditions of a status that a node decides", "syncpod/status/conditions.go", regexp.MustCompile(`v1\.ContainersReady\b.*v1\.PodScheduled\b|v1\.PodScheduled\b.*v1\.ContainersReady\b`)},
	{"a container has run", "runtime/status.go", regexp.MustCompile(`\bc != nil && c\.State != (runtime\.)?ContainerCreated`)},
	{"a volume's files are the pod's own, on the node's disk", "syncpod/eviction/usage.go", regexp.MustCompile(`EmptyDir\.Medium == v1\.StorageMediumDefault`)},
	{"an init container is a sidecar", "runtime/pod.go", regexp.MustCompile(`[!=]= *v1\.ContainerRestartPolicyAlways`)},
}

// judges have rules of their own, because they judge those of the library.
var judges = []string{"internal/rig/conformance/...", "internal/rig/simulation/...", "runtime/cri/critest/..."}

// spelledOut returns the lines of a file that have a rule whose home is another file.
func spelledOut(h home, path, text string) []string {
	var broken []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		if path != h.file && h.spelled.MatchString(line) {
			broken = append(broken, fmt.Sprintf("%s:%d: %s: this rule is in %s", path, n, h.rule, h.file))
		}
	}
	return broken
}

func TestEachRuleHasOneHome(t *testing.T) {
	found := map[string]bool{}
	for _, f := range moduleSources(t) {
		if f.test() || matchAny(judges, f.path) {
			continue
		}
		text := must.Get(os.ReadFile(filepath.Join(root, f.path)))(t)
		for _, h := range homes {
			for _, b := range spelledOut(h, f.path, string(text)) {
				t.Error(b)
			}
			if f.path == h.file && h.spelled.Match(text) {
				found[h.rule] = true
			}
		}
	}
	for _, h := range homes {
		if !found[h.rule] {
			t.Errorf("%s is listed as the home of %q, but does not have it", h.file, h.rule)
		}
	}
}

func TestHomeRule(t *testing.T) {
	text := "package p\nfunc over(p v1.PodPhase) bool { return p == v1.PodFailed || p == v1.PodSucceeded }\n"
	if got := spelledOut(homes[0], "syncpod/over.go", text); len(got) != 1 || !strings.HasPrefix(got[0], "syncpod/over.go:2: ") {
		t.Errorf("%q, want a fault in line 2", got)
	}
	if got := spelledOut(homes[0], homes[0].file, text); len(got) != 0 {
		t.Errorf("%q at home", got)
	}
}
