//go:build linux

package main

import (
	"os"
	"path/filepath"
	"time"
)

// The paths that attacks write to. Volumes that a pod does not have do not exist.
const (
	scratch = "/scratch"             // an emptyDir
	memory  = "/memory"              // an emptyDir in memory
	host    = "/host"                // a hostPath
	layer   = "/tmp"                 // the writable layer
	message = "/dev/termination-log" // the termination message
	hosts   = "/etc/hosts"
)

// attacks returns functions by name. When one returns, the container ends.
func attacks() map[string]func(args []string) {
	return map[string]func(args []string){
		"sparse": func([]string) { sparse() }, "fill": func(args []string) { fill(args[0]); forever() },
		"bytes": func([]string) { names(scratch); forever() }, "deep": func(args []string) { deep(number(args[0])); forever() },
		"many": func(args []string) { many(number(args[0])); forever() }, "churn": func([]string) { churn() },
		"masquerade": func([]string) { masquerade(); forever() }, "envfile": func(args []string) { envFile(args[0]) },
		"flip": func(args []string) { flip(args[0], args[1]) }, "spy": func(args []string) { spy(args[0]) },
		"dwell": func([]string) { dwell() }, "sink": func([]string) { sink() }, "forge": func(args []string) { forge(args[0]) }, "shuttle": func([]string) { shuttle() },
		"flood": func(args []string) { flood(args[0]) }, "crash": func([]string) { flood("burst"); os.Exit(1) },
		"fork": func([]string) { forkBomb() }, "zombies": func([]string) { zombies() }, "sleep": func([]string) { time.Sleep(1 << 60) },
		"slaughter": func([]string) { slaughter() }, "watches": func([]string) { watches() }, "leases": func([]string) { leases() },
		"attributes": func([]string) { attributes(); forever() }, "oddpaths": func([]string) { oddPaths() },
		"answers": func(args []string) { answers(args[0]) }, "deaf": func([]string) { forever() },
		"cgroups": func([]string) { cgroups(); forever() }, "memory": func([]string) { eat() },
	}
}

// again reports whether the attack has run in this pod before.
func again() bool {
	_, err := os.Stat(filepath.Join(scratch, "ran"))
	_ = os.WriteFile(filepath.Join(scratch, "ran"), nil, 0o644)
	return err == nil
}
