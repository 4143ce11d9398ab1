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
	// Orphaned: nothing of the pod runs, and no source wants it, or a source wants a new pod
	// with its UID. The pod waits for its removal.
	Orphaned
	// Removing: the node's containers, sandboxes, files and devices of the pod are being
	// removed, and its records last.
	Removing
	// Forgotten: the node has nothing of the pod any more. A new pod may have its UID.
	Forgotten
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
	case Orphaned:
		return "orphaned"
	case Removing:
		return "removing"
	case Forgotten:
		return "forgotten"
	}
	return "syncing"
}
