package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const first = `[{"StartTime": "2026-11-27T10:00:00Z", "SpecReports": [
 {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "run", "State": "timedout", "RunTime": 1000000000},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "stop", "State": "passed", "RunTime": 2000000000},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "filtered", "State": "skipped"},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "skips itself", "State": "skipped", "Failure": {"Message": "no GPU"}}]}]`

const again = `[{"StartTime": "2026-11-28T10:00:00Z", "SpecReports": [
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "run", "State": "passed", "RunTime": 3600000000}]}]`

func TestTable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	a, b := write("a.json", first), write("b.json", again)
	for _, tt := range []struct{ args, want string }{
		{"podsync-node=" + a + "," + b, "# Pods, 2026-11-28\ntest\tpodsync-node\tseconds\n" +
			"[sig-node] Pods run\tpassed\t4\n[sig-node] Pods skips itself\tskipped\t0\n[sig-node] Pods stop\tpassed\t2\n"},
		{"podsync-node=" + b + " kubelet=" + a, "# Pods, 2026-11-27\ntest\tpodsync-node\tkubelet\n" +
			"[sig-node] Pods run\tpassed\tfailed\n[sig-node] Pods skips itself\tnot run\tskipped\n[sig-node] Pods stop\tnot run\tpassed\n"},
	} {
		var out strings.Builder
		if err := run(append([]string{"Pods"}, strings.Fields(tt.args)...), &out); err != nil || out.String() != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.args, err, out.String(), tt.want)
		}
	}
	if err := run([]string{"Pods", "kubelet=" + write("c.json", "{")}, &strings.Builder{}); err == nil {
		t.Error("a damaged report is accepted")
	}
}
