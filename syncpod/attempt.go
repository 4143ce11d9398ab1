package syncpod

import containerstart "github.com/podsync/podsync/syncpod/container/start"

// logFiles are container logs in files, which end with their pods.
type logFiles struct {
	containerstart.LogFiles
	podLogs
}
