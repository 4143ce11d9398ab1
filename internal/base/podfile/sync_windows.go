package podfile

// Sync does nothing: Windows has no such call, and writes names by itself.
func (d Dir) Sync() error { return nil }
