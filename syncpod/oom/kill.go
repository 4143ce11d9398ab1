package oom

import (
	"fmt"
	"strconv"
	"strings"
)

// Kill is a process that was killed.
type Kill struct {
	// PID and Process are the process's number and name on the node. The process chooses its
	// name; the kernel keeps the first 15 bytes.
	PID     int
	Process string
	// uID is the user that it ran as.
	uID int
	// Cgroup is the path of the cgroup that it was in, below its hierarchy's root.
	Cgroup string
	// Limit is the cgroup whose limit was reached. Empty means that the node ran out of memory.
	Limit string
}

// System reports whether the node ran out of memory, not a container.
func (k Kill) System() bool { return k.Limit == "" }

// String describes the kill in one line.
func (k Kill) String() string {
	if k.System() {
		return fmt.Sprintf("process %q, PID %d, of %s: the node is out of memory", k.Process, k.PID, k.Cgroup)
	}
	return fmt.Sprintf("process %q, PID %d, of %s: %s is at its limit", k.Process, k.PID, k.Cgroup, k.Limit)
}

// Containers returns the container IDs in the cgroup's path, the outermost first, from the names
// that runtimes and systemd give to cgroups. The process was in the container of the first ID that
// the caller's runtime knows. IDs before that one belong to containers in which the whole node
// runs. A container may choose the names of cgroups below its own, so later IDs prove nothing.
func (k Kill) Containers() (ids []string) {
	for name := range strings.SplitSeq(k.Cgroup, "/") {
		name = strings.TrimSuffix(name, ".scope")
		name = name[strings.LastIndexAny(name, "-:")+1:]
		if isID(name) {
			ids = append(ids, name)
		}
	}
	return ids
}

// idLength is the number of hexadecimal digits in a container ID.
const idLength = 64

func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}

const (
	prefix = "oom-kill:"
	// The kernel writes global instead of the cgroup whose limit was reached.
	global = "global_oom"
)

// Parse parses a record of the kernel's log: the header, a semicolon and the first line of text. It
// returns false for any record that does not report an OOM kill. A process can write to the log,
// but not with the kernel's facility, and its name cannot affect the result, because Parse reads
// the text from both ends.
func Parse(record string) (Kill, bool) {
	head, text, ok := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n")
	if !ok || !ofKernel(head) || !strings.HasPrefix(text, prefix) {
		return Kill{}, false
	}
	k := Kill{}
	text, uid, ok1 := cutLast(text, ",uid=")
	text, pid, ok2 := cutLast(text, ",pid=")
	var err1, err2 error
	k.uID, err1 = strconv.Atoi(uid)
	k.PID, err2 = strconv.Atoi(pid)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || k.PID <= 0 {
		return Kill{}, false
	}
	limit, task, ok := cutPaths(text)
	if !ok {
		return Kill{}, false
	}
	k.Limit = limit
	k.Cgroup, k.Process, ok = strings.Cut(task, ",task=")
	return k, ok
}

// cutPaths returns the cgroup whose limit was reached, empty if the node ran out of memory, and the
// text from the cgroup of the process on. A container names the cgroups below its own, and may use
// the kernel's keywords there. It cannot place them before its own cgroup, because a name contains
// no slash. The limit's cgroup is a prefix of the process's cgroup, so the two paths begin alike.
func cutPaths(text string) (limit, task string, ok bool) {
	const limitPath, taskPath = ",oom_memcg=", ",task_memcg="
	ofNode, limited := strings.Index(text, ","+global+taskPath+"/"), strings.Index(text, limitPath+"/")
	switch {
	case ofNode >= 0 && (limited < 0 || ofNode < limited):
		return "", text[ofNode+len(","+global+taskPath):], true
	case limited < 0:
		return "", "", false
	}
	paths := text[limited+len(limitPath):]
	for end := 0; ; end += len(taskPath) {
		next := strings.Index(paths[end:], taskPath)
		if next < 0 {
			return "", "", false
		}
		end += next
		if limit, task = paths[:end], paths[end+len(taskPath):]; strings.HasPrefix(task, limit) {
			return limit, task, true
		}
	}
}

// ofKernel reports whether the record has the kernel's facility, 0, which no process can set.
func ofKernel(head string) bool {
	priority, _, _ := strings.Cut(head, ",")
	n, err := strconv.Atoi(priority)
	return err == nil && n >= 0 && n < 8
}

func cutLast(s, sep string) (before, after string, ok bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}
