package podworkers

// Phase is the stage of a pod's life on this node. A pod passes the phases in this order and never
// returns to an earlier one.
type Phase uint8

const (
	// Syncing means that the pod must run, or waits for another static pod of its name.
	Syncing Phase = iota
	// Terminating means that the pod must stop. None of its containers starts any more.
	Terminating
	// Terminated means that no container in the pod runs or will run. The cleanup of its resources on the
	// node is left.
	Terminated
	// Finished means that nothing is left to do. The Set remembers the pod until no source wants it, or a
	// source wants a new pod with its UID.
	Finished
	// Orphaned means that nothing of the pod runs, and no source wants it, or a source wants a new pod
	// with its UID. The pod waits for its removal.
	Orphaned
	// Removing means that the node's containers, sandboxes, files and devices of the pod are being
	// removed, and its records last.
	Removing
	// Forgotten means that the node has nothing of the pod any more. A new pod may have its UID.
	Forgotten
)

// HasStopped reports whether the pod is past its stop: nothing of it runs, except for containers that were found running later.
func (p Phase) HasStopped() bool { return p >= Terminated }

// HasFinished reports whether nothing but the pod's removal is left to do.
func (p Phase) HasFinished() bool { return p >= Finished }

// IsOrphan reports whether the pod waits for its removal, is being removed, or was forgotten.
func (p Phase) IsOrphan() bool { return p > Finished }

// MarshalText returns the same text as String.
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
