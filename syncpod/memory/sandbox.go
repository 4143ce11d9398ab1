package memory

import "github.com/podsync/podsync/runtime"

// Sandbox holds the facts about a pod's sandboxes.
type Sandbox struct {
	// made is the sandbox that this agent created last; unaddressed is the sandbox whose address the agent waits, or
	// waited, for.
	made, unaddressed string
}

// SetMade records which sandbox was created last.
func (s *Sandbox) SetMade(id string) { s.made = id }

// InUse returns the sandbox that the pod uses: the one that this agent created last, or else
// the latest that is ready.
func (s *Sandbox) InUse(status *runtime.PodStatus) string {
	for i := range status.Sandboxes {
		if status.Sandboxes[i].ID == s.made {
			return s.made
		}
	}
	if active := status.ActiveSandbox(); active != nil {
		return active.ID
	}
	return ""
}

// BeginWait records that the agent waits for a sandbox's address, and reports whether that is new.
func (s *Sandbox) BeginWait(id string) bool {
	began := !s.Waits(id)
	s.unaddressed = id
	return began
}

// Waits reports whether the agent waits, or has waited, for a sandbox's address.
func (s *Sandbox) Waits(id string) bool { return s.unaddressed == id }

// EndWait ends the wait for an address, and reports whether there was one for the
// latest sandbox.
func (s *Sandbox) EndWait(status *runtime.PodStatus) bool {
	latest := status.LatestSandbox()
	if latest == nil || !s.Waits(latest.ID) {
		return false
	}
	s.unaddressed = ""
	return true
}
