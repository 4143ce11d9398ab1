package main

import (
	"runtime"
	"runtime/debug"
)

// version returns the program's version and the version of Go. A program that was not built from a clone has no revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "nodeagent, " + runtime.Version()
	}
	text := "nodeagent " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.time" {
			text += ", " + s.Value
		}
	}
	return text + ", " + runtime.Version()
}
