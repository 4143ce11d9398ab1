//go:build !linux && !darwin

package main

import "os"

// terminalSize treats no file as a terminal here, so the agent prints plain lines.
func terminalSize(*os.File) (width, height int, ok bool) { return 0, 0, false }
