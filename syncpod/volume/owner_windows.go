package volume

import "io/fs"

// isOwned: files are the agent's.
func isOwned(fs.FileInfo, int, int) bool { return true }
