package podworkers

// Phase is where a pod stands in its life on this node. Phases are passed in
// order and never back.
type Phase uint8

const (
	// Syncing: the pod is to run, or waits for its turn to start.
	Syncing Phase = iota
	// Terminating: the pod is to stop. Nothing is started in it any more.
	Terminating
	// Terminated: no container of the pod runs or will run. What the node holds
	// for it is to be cleaned up.
	Terminated
	// Finished: nothing is left to do. The pod is remembered until no source wants
	// it, or a source wants it anew.
	Finished
)

// MarshalText returns what String does.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String returns the phase in one lower-case word.
func (p Phase) String() string {
	switch p {
	case Terminating:
		return "terminating"
	case Terminated:
		return "terminated"
	case Finished:
		return "finished"
	}
	return "syncing"
}
