package oom

import (
	"slices"
	"strings"
	"testing"
)

const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	const tail = ",task=sh,pid=42,uid=1000\n SUBSYSTEM=x\n"
	for _, tc := range []struct {
		name, record string
		want         Kill
		container    string
	}{
		{"cgroupfs", "6,339,5140900,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods/podu,task_memcg=/kubepods/podu/" + id + tail,
			Kill{42, "sh", 1000, "/kubepods/podu/" + id, "/kubepods/podu"}, id},
		{"systemd", "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods.slice/cri-containerd-" + id + ".scope,task_memcg=/kubepods.slice/cri-containerd-" + id + ".scope/inner" + tail,
			Kill{42, "sh", 1000, "/kubepods.slice/cri-containerd-" + id + ".scope/inner", "/kubepods.slice/cri-containerd-" + id + ".scope"}, id},
		{"of the node", "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice" + tail,
			Kill{42, "sh", 1000, "/user.slice", ""}, ""},
		{"containerd without systemd", "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task_memcg=/system.slice:cri-containerd:" + id + tail,
			Kill{42, "sh", 1000, "/system.slice:cri-containerd:" + id, ""}, id},
		{"a name that lies", "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task_memcg=/a,task=b,pid=1,uid=0,pid=42,uid=7",
			Kill{42, "b,pid=1,uid=0", 7, "/a", ""}, ""},
	} {
		got, ok := Parse(tc.record)
		if !ok || got != tc.want || strings.Join(got.Containers(), " ") != tc.container || got.System() != (tc.want.Limit == "") {
			t.Errorf("%s: %+v, %v, container %q; want %+v", tc.name, got, ok, got.Containers(), tc.want)
		}
	}
}

// A container may write the kernel's words into the names of its cgroups.
func TestParseForgedNames(t *testing.T) {
	own, other := "/kubepods/pod12-34/"+id, strings.Repeat("f", 64)
	for _, name := range []string{
		"/a,task_memcg=x:" + other + ",task=b",
		"/a,task_memcg=/" + other + "/c,task=b",
		"/a,task_memcg=" + own + "/a/" + other,
		"/a,oom_memcg=/" + other + ",task_memcg=/" + other + ",task=b",
		"/a,global_oom,task_memcg=/" + other + ",task=b",
	} {
		cgroup := own + name
		const head, tail = "6,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,cpuset=x,mems_allowed=0", ",task=sh,pid=42,uid=7\n SUBSYSTEM=x\n"
		for record, system := range map[string]bool{
			head + ",oom_memcg=" + cgroup + ",task_memcg=" + cgroup + tail: false,
			head + ",oom_memcg=" + own + ",task_memcg=" + cgroup + tail:    false,
			head + ",global_oom,task_memcg=" + cgroup + tail:               true,
		} {
			k, ok := Parse(record)
			if !ok || len(k.Containers()) == 0 || k.Containers()[0] != id || k.System() != system || k.PID != 42 {
				t.Errorf("%s\nis a kill: %t, of the containers %q, of the node: %t", record, ok, k.Containers(), k.System())
			}
		}
	}
	if k, ok := Parse("6,1,2,-;oom-kill:cpuset=x,oom_memcg=/a,task_memcg=/b,task=sh,pid=42,uid=7"); ok {
		t.Errorf("%+v: a process outside the cgroup whose limit was reached", k)
	}
}

// A container may make cgroups below its own, with names of its choice. It cannot change the names above them.
func TestContainers(t *testing.T) {
	other := strings.Repeat("f", 64)
	for cgroup, want := range map[string][]string{
		"/kubepods/burstable/pod12-34/" + id: {id},
		"/k8s.io/" + id + "/podx/" + other:   {id, other},
		"/kubepods.slice/kubepods-pod12_34.slice/cri-containerd-" + id + ".scope/crio-" + other + ".x":  {id},
		"/kubepods.slice/kubepods-pod12_34.slice/cri-containerd-" + id + ".scope/a-" + other + ".scope": {id, other},
		"/docker/" + other + "/kubelet/kubepods/pod12-34/" + id:                                         {other, id},
		"/kubepods/burstable/pod12-34/": nil,
		"/" + id[1:]:                    nil,
	} {
		if got := (Kill{Cgroup: cgroup}).Containers(); !slices.Equal(got, want) {
			t.Errorf("a kill in %s has the containers %q, want %q", cgroup, got, want)
		}
	}
}

func TestParsePassesOver(t *testing.T) {
	good := "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task_memcg=/a,task=b,pid=42,uid=7"
	if _, ok := Parse(good); !ok {
		t.Fatal("a valid line is skipped")
	}
	for name, record := range map[string]string{
		"empty":               "",
		"other":               "6,1,2,-;usb 1-1: new device",
		"written by a user":   strings.Replace(good, "6,", "14,", 1),
		"no priority":         strings.Replace(good, "6,", "x,", 1),
		"no PID":              strings.Replace(good, "pid=42", "pid=many", 1),
		"PID 0":               strings.Replace(good, "pid=42", "pid=0", 1),
		"no user":             strings.Replace(good, ",uid=7", "", 1),
		"cut":                 good[:len(good)-20],
		"no cgroup":           strings.Replace(good, "task_memcg", "memcg", 1),
		"neither limit":       strings.Replace(good, "global_oom", "other", 1),
		"in a line behind it": "6,1,2,-;other\n " + strings.TrimPrefix(good, "6,1,2,-;"),
	} {
		if k, ok := Parse(record); ok {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

// Any line of the log is either the kill of a process, or no kill.
func FuzzParse(f *testing.F) {
	f.Add("6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task_memcg=/a,task=b,pid=42,uid=7")
	f.Add("6,339,5140900,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/k,task_memcg=/k/" + id + ",task=sh,pid=42,uid=1000\n A=b\n")
	f.Add(";,uid=1,pid=1")
	f.Fuzz(func(t *testing.T, record string) {
		k, ok := Parse(record)
		if ok && (k.PID <= 0 || k.String() == "" || slices.ContainsFunc(k.Containers(), func(id string) bool { return !strings.Contains(k.Cgroup, id) })) {
			t.Errorf("%q is %+v", record, k)
		}
	})
}
