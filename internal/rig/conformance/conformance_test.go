package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Every recorded case of every kind is decided as the kubelet did, or otherwise
// by one of the rules named here, so often and no more.
func TestEveryRecordedCase(t *testing.T) {
	for file, want := range map[string]tally{
		"actions": {agree: 2997, deviate: 3, deviations: map[string]int{neverRan: 3}},
		"workers": {agree: 915, deviate: 81, deviations: map[string]int{
			graceNotRaised: 3, answeredKill: 41, promptSuccessor: 31, answeredKill + "; " + promptSuccessor: 1, runtimePodStops: 5,
		}},
		"workers.rare": {deviate: 63, deviations: rareDeviations()},
		"config":       {agree: 332, deviate: 268, deviations: map[string]int{nilIsEmpty: 240, sidecarPorts: 28}},
		"cgroup":       {agree: 1000},
		"resources":    {agree: 1000},
		"rank":         {agree: 1000},
		"env":          {agree: 800},
		"status":       {agree: 1481, deviate: 19, deviations: map[string]int{createdMayRun: 19}},
		"status.rare":  {agree: 14},
		"cpu":          {agree: 451, deviate: 49, deviations: map[string]int{takesTaken: 49}},
		"topology":     {agree: 2000},
		"numamemory":   {agree: 230, deviate: 5, deviations: map[string]int{groupServesAlone: 5}},
	} {
		t.Run(file, func(t *testing.T) {
			var out bytes.Buffer
			kind, _, _ := strings.Cut(file, ".")
			got := must.Get(run(&out, []string{kind, "testdata/" + file + ".jsonl.gz"}))(t)
			if got.differ > 0 || got.agree != want.agree || got.deviate != want.deviate || fmt.Sprint(got.deviations) != fmt.Sprint(want.deviations) {
				t.Errorf("want %d agree, deviations %v; got\n%s", want.agree, want.deviations, &out)
			}
			last := fmt.Sprintf("%s: %d vectors, %d agree, %d deviate on purpose, 0 differ\n", kind, want.agree+want.deviate, want.agree, want.deviate)
			if !strings.HasSuffix(out.String(), last) {
				t.Errorf("the last line is not %q:\n%s", last, &out)
			}
		})
	}
}

// rareDeviations are the rules that meet in the records that were kept for that.
func rareDeviations() map[string]int {
	counts := map[string]int{}
	for _, met := range []struct {
		times int
		rules []string
	}{
		{3, []string{graceNotRaised}},
		{23, []string{runtimePodStops}},
		{2, []string{graceNotRaised, runtimePodStops}},
		{2, []string{graceNotRaised, answeredKill}},
		{2, []string{graceNotRaised, promptSuccessor}},
		{4, []string{runtimePodStops, answeredKill}},
		{8, []string{runtimePodStops, promptSuccessor}},
		{2, []string{answeredKill, promptSuccessor}},
		{2, []string{graceNotRaised, runtimePodStops, answeredKill}},
		{2, []string{graceNotRaised, runtimePodStops, promptSuccessor}},
		{2, []string{graceNotRaised, answeredKill, promptSuccessor}},
		{2, []string{runtimePodStops, answeredKill, promptSuccessor}},
		{1, []string{graceNotRaised, runtimePodStops, answeredKill, promptSuccessor}},
		{3, []string{newPlace, promptSuccessor}},
		{2, []string{newPlace, graceNotRaised, promptSuccessor}},
		{2, []string{newPlace, runtimePodStops, promptSuccessor}},
		{1, []string{newPlace, answeredKill, promptSuccessor}},
	} {
		counts[strings.Join(met.rules, "; ")] = met.times
	}
	return counts
}

// A deviation is documented where users look for it.
func TestDeviationsAreDocumented(t *testing.T) {
	parity := must.Get(os.ReadFile("../../../docs/PARITY.md"))(t)
	for _, rule := range []string{neverRan, promptSuccessor, newPlace, answeredKill, graceNotRaised, runtimePodStops, createdMayRun, nilIsEmpty, sidecarPorts, groupServesAlone} {
		if !strings.Contains(string(parity), rule) {
			t.Errorf("docs/PARITY.md does not name %q", rule)
		}
	}
}

// A wrong record is noticed, in every field that is compared.
func TestChecksNoticeWrongRecords(t *testing.T) {
	for _, c := range []struct{ kind, old, new, field string }{
		{"actions", `"killPod":false`, `"killPod":true`, "killPod"},
		{"actions", `"createSandbox":false`, `"createSandbox":true`, "createSandbox"},
		{"actions", `"sandboxID":"s0"`, `"sandboxID":"s9"`, "sandboxID"},
		{"actions", `"attempt":2,"init`, `"attempt":3,"init`, "attempt"},
		{"actions", `"initContainersToStart":null`, `"initContainersToStart":[0]`, "initContainersToStart"},
		{"actions", `"containersToStart":[0,1]`, `"containersToStart":[0]`, "containersToStart"},
		{"actions", `"ephemeralContainersToStart":[0]`, `"ephemeralContainersToStart":[]`, "ephemeralContainersToStart"},
		{"actions", `"reason":"LivenessProbe"`, `"reason":"StartupProbe"`, "containersToKill"},
		{"actions", `"containersToKill":[]`, `"containersToKill":[],"containersToReset":[{"id":"k0"}]`, "containersToReset"},
		{"workers", `"method":"SyncPod","type":"create"`, `"method":"SyncPod","type":"sync"`, "calls a"},
		{"workers", `"calls":[]`, `"calls":[{"uid":"b","method":"SyncPod","result":"ok"}]`, "calls b"},
		{"workers", `"knownTerminated":false`, `"knownTerminated":true`, "knownTerminated a"},
		{"workers", `"shouldContentBeRemoved":false`, `"shouldContentBeRemoved":true`, "shouldContentBeRemoved a"},
		{"workers", `"killCompleted":true`, `"killCompleted":false`, "killCompleted"},
		{"workers", `"orphan":true`, `"orphan":false`, "known a"},
		{"cgroup", `"cgroupfs":"/kubepods/burstable/`, `"cgroupfs":"/kubepods/besteffort/`, ".cgroupfs"},
		{"cgroup", `"systemd":"/kubepods.slice/`, `"systemd":"/`, ".systemd"},
		{"cgroup", `"cpuShares":1024`, `"cpuShares":1023`, ".cpuShares"},
		{"cgroup", `"cpuWeight":39`, `"cpuWeight":38`, ".cpuWeight"},
		{"cgroup", `"cpuQuota":null`, `"cpuQuota":-1`, ".cpuQuota"},
		{"cgroup", `"cpuQuota":0`, `"cpuQuota":null`, ".cpuQuota"},
		{"cgroup", `"cpuPeriod":20000`, `"cpuPeriod":100000`, ".cpuPeriod"},
		{"cgroup", `"memory":null`, `"memory":0`, ".memory"},
		{"cgroup", `"2097152":`, `"1073741824":`, ".hugePageLimits"},
		{"cgroup", `"memory.low"`, `"memory.min"`, ".unified"},
		{"cgroup", `"qos":"BestEffort"`, `"qos":"Burstable"`, ".qos"},
		{"resources", `"allocatedResources":{"cpu":"5m"`, `"allocatedResources":{"cpu":"6m"`, ".allocatedResources.cpu"},
		{"resources", `"resources":{"limits":{"cpu":"250m"`, `"resources":{"limits":{"cpu":"251m"`, ".resources.limits.cpu"},
		{"resources", `"resources":{"requests":{"cpu":"3m","memory":"1Gi"}}`, `"resources":{"requests":{"cpu":"3m","memory":"1G"}}`, ".resources.requests.memory"},
		{"resources", `"resources":{},"user"`, `"resources":null,"user"`, ".resources"},
		{"resources", `"user":{"linux":{"uid":1`, `"user":{"linux":{"uid":2`, ".user.linux.uid"},
		{"resources", `"user":null,"volumeMounts"`, `"user":{},"volumeMounts"`, ".user"},
		{"resources", `"volumeMounts":null}`, `"volumeMounts":[{"name":"v1","mountPath":"/m1"}]}`, ".volumeMounts"},
		{"rank", `"memory":["u1","u2","u3"`, `"memory":["u2","u1","u3"`, ".memory"},
		{"rank", `"pids":["u1","u2","u3"`, `"pids":["u1","u3","u2"`, ".pids"},
		{"rank", `"nodefs":["u1","u2","u3"`, `"nodefs":["u2","u1","u3"`, ".nodefs"},
		{"rank", `"nodefsInodes":["u1","u2","u3"`, `"nodefsInodes":["u2","u1","u3"`, ".nodefsInodes"},
		{"rank", `"imagefs":["u1","u2","u3"`, `"imagefs":["u2","u1","u3"`, ".imagefs"},
		{"rank", `"nodefsBesideImagefs":["u1","u2","u3"`, `"nodefsBesideImagefs":["u2","u1","u3"`, ".nodefsBesideImagefs"},
		{"topology", `"want":[{"hint":{"nodes":1}`, `"want":[{"hint":{"nodes":2}`, "got {{0 false} true}"},
		{"numamemory", `"cells":1,`, `"cells":2,`, ".cells"},
		{"numamemory", `"reason":"UnexpectedAdmissionError"`, `"reason":"TopologyAffinityError"`, ".reason"},
		{"numamemory", `failed to find NUMA nodes`, `failed`, ".error"},
		{"numamemory", `"hints":[{"memory":[{"nodes":1`, `"hints":[{"memory":[{"nodes":2`, ".hints"},
		{"numamemory", `"affinity":{"c0":{"nodes":1`, `"affinity":{"c0":{"nodes":2`, ".affinity"},
		{"numamemory", `"type":"memory","size":5`, `"type":"memory","size":4`, ".blocks"},
		{"topology", `"admit":false`, `"admit":true`, "want [{"},
		{"status", `"want":{"phase":"Running"`, `"want":{"phase":"Pending"`, ".phase"},
		{"status", `"want":{"phase":"Failed"`, `"want":{"phase":"Succeeded"`, ".phase"},
		{"status", `"qosClass":"BestEffort"`, `"qosClass":"Burstable"`, ".qosClass"},
		{"status", `"podIPs":[{"ip":"10.0.0.9"}]`, `"podIPs":[{"ip":"10.0.0.8"}]`, ".podIPs[0].ip"},
		{"status", `"reason":"ContainersNotReady"`, `"reason":"PodFailed"`, "].reason"},
		{"status", `containers with incomplete`, `containers with unready`, "].message"},
		{"status", `"started":false`, `"started":true`, "].started"},
		{"status", `"ready":true,"restartCount"`, `"ready":false,"restartCount"`, "].ready"},
		{"status", `"imageID":"sha256:r"`, `"imageID":""`, "].imageID"},
		{"status", `"reason":"PodInitializing"}},"lastState":{},"ready":false,"restartCount":0,"image":"img","imageID":"","started"`,
			`"reason":"ContainerCreating"}},"lastState":{},"ready":false,"restartCount":0,"image":"img","imageID":"","started"`, "].state.waiting.reason"},
	} {
		t.Run(c.field, func(t *testing.T) {
			judge := kinds()[c.kind]
			for _, line := range recorded(t, "testdata/"+c.kind+".jsonl.gz") {
				if o, err := judge([]byte(line)); err != nil || o.deviation != "" {
					continue
				}
				wrong := strings.Replace(line, c.old, c.new, 1)
				if wrong == line {
					continue
				}
				o := must.Get(judge([]byte(wrong)))(t)
				if !strings.Contains(o.diff, c.field) {
					t.Errorf("with %s for %s the difference is %q, want %s in it", c.new, c.old, o.diff, c.field)
				}
				return
			}
			t.Fatalf("no record has %s", c.old)
		})
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, args := range map[string][]string{
		"usage":                        {},
		"usage: conformance KIND FILE": {"actions"},
		`kind "shape" is not one of`:   {"shape", "x.jsonl"},
		"no such file":                 {"actions", filepath.Join(dir, "missing.jsonl")},
		"broken.jsonl:2":               {"actions", write("broken.jsonl", "\n{")},
		"bad.gz":                       {"actions", write("bad.gz", "not gzip")},
		`"odd" is not one of`:          {"actions", write("state.jsonl", `{"containers":[{"name":"c","state":"odd"}]}`)},
		"has neither pod nor runtime":  {"workers", write("pod.jsonl", `{"steps":[{"do":{"op":"update","uid":"a","type":"sync"}}]}`)},
		"cgroup: the line has no name": {"cgroup", write("cgroup.jsonl", `{}`)},
		"rank: the line has no name":   {"rank", write("rank.jsonl", `{"name":"x","pods":[{}]}`)},
		"resources: the line has no":   {"resources", write("resources.jsonl", `{}`)},
		`"gone" is not one of [`:       {"resources", write("gone.jsonl", `{"name":"x","state":"gone","pod":{"spec":{"containers":[{}]}},"want":{}}`)},
		"metadata.uid is empty":        {"cgroup", write("uid.jsonl", `{"name":"x","pod":{},"want":{}}`)},
		"cpu: the line has no":         {"cpu", write("cpu.jsonl", `{"name":"x"}`)},
		"numamemory: the line has no":  {"numamemory", write("numamemory.jsonl", `{"name":"x"}`)},
		`"sit" is not one of admit`:    {"numamemory", write("sit.jsonl", `{"name":"x","case":{"machine":{"nodes":[0]},"nodes":[{"memory":2,"reserved":{"memory":1}}],"initial":[{"cells":1,"memory":{"memory":[1,0,1]}}],"steps":[{"op":"sit"}]}}`)},
		"topology: the line has no":    {"topology", write("topology.jsonl", `{"name":"x"}`)},
		"the line has no name":         {"status", write("name.jsonl", `{}`)},
		`"gone" is not one of`:         {"status", write("status.jsonl", `{"name":"s","sandboxes":[{"state":"gone"}]}`)},
		`"sleep" is not one of`:        {"workers", write("op.jsonl", `{"steps":[{"do":{"op":"sleep"}}]}`)},
	} {
		if _, err := run(&bytes.Buffer{}, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%q): error %v, want %q in it", args, err, want)
		}
	}
}

func TestPlainLinesAreReadToo(t *testing.T) {
	line := recorded(t, "testdata/actions.jsonl.gz")[0]
	path := filepath.Join(t.TempDir(), "one.jsonl")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil { // no newline at the end
		t.Fatal(err)
	}
	got, err := run(&bytes.Buffer{}, []string{"actions", path, path})
	if err != nil || got.agree != 2 {
		t.Errorf("%d agree, error %v; want 2", got.agree, err)
	}
}

func TestOnlyTheFirstDifferencesArePrinted(t *testing.T) {
	var out bytes.Buffer
	tl := tally{kind: "k", out: &out}
	for range printedDifferences + 5 {
		must.Do(t, tl.add(outcome{name: "n", diff: "d"}, nil))
	}
	tl.print()
	if got := strings.Count(out.String(), "k n differs"); got != printedDifferences {
		t.Errorf("%d differences printed, want %d", got, printedDifferences)
	}
	if !strings.HasSuffix(out.String(), "k: 15 vectors, 0 agree, 0 deviate on purpose, 15 differ\n") {
		t.Errorf("last line: %s", &out)
	}
}
