package oom_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/oom"
)

// The kernel's log lines when a container reaches its memory limit.
func ExampleParse() {
	k, ok := oom.Parse("6,339,5140900,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=app,mems_allowed=0," +
		"oom_memcg=/kubepods/pod1/app,task_memcg=/kubepods/pod1/app,task=stress,pid=4242,uid=0")
	fmt.Println(ok, k)
	// Output: true process "stress", PID 4242, of /kubepods/pod1/app: /kubepods/pod1/app is at its limit
}
