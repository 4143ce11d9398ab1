package syncpod

import (
	"github.com/podsync/podsync/sandbox"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
)

// scanLogs reads, once, which attempts of a container have logs.
func (o *observedPod) scanLogs(name string) error {
	dir, err := sandbox.BuildPodLogsDirectory(o.config.Node.LogsRoot, o.pod)
	if err != nil {
		return err
	}
	return containerstart.ScanLogs(o.syncer.stopMemory(o.memory), o.config.Parts.Logs, dir, name)
}

// logFiles are container logs in files, which end with their pods.
type logFiles struct {
	containerstart.LogFiles
	podLogs
}
