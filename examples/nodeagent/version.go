package main

import (
	"runtime"
	"runtime/debug"
)

// version returns the program's version, as far as the build has recorded it, and that of Go.
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
