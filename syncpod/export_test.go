package syncpod

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
	ErrResizeContainer       = errResizeContainer
	ErrResizePod             = errResizePod
	ErrRunContainer          = errRunContainer
)

var (
	ErrHookTimeout  = errHookTimeout
	ErrStillRunning = errStillRunning
	LogLinkName     = logLinkName
)

// Parts are the parts that a test may replace.
func (c *Config) Parts() *dependencies { return &c.deps }
