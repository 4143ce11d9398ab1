package syncpod

import containerstart "github.com/podsync/podsync/syncpod/container/start"

// What tests compare errors with.
const (
	ErrConfigPodSandbox      = errConfigPodSandbox
	ErrCreateContainer       = errCreateContainer
	ErrCreateContainerConfig = errCreateContainerConfig
	ErrCreatePodSandbox      = errCreatePodSandbox
	ErrKillContainer         = errKillContainer
	ErrKillPodSandbox        = errKillPodSandbox
	ErrNetworkNotReady       = errNetworkNotReady
	ErrPostStartHook         = errPostStartHook
	ErrPreCreateHook         = errPreCreateHook
	ErrPreStartHook          = errPreStartHook
	ErrResizeContainer       = errResizeContainer
	ErrResizePod             = errResizePod
	ErrRunContainer          = errRunContainer
)

var (
	ErrHookTimeout  = containerstart.ErrHookTimeout
	ErrStillRunning = errStillRunning
	LogLinkName     = logLinkName
)

// Images returns the part that ensures that images are present.
func (s *Syncer) Images() Images { return s.config.Parts.Images }
