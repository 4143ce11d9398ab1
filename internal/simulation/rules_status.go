package simulation

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var phaseOrder = map[v1.PodPhase]int{v1.PodPending: 1, v1.PodRunning: 2, v1.PodSucceeded: 3, v1.PodFailed: 3}

func (tr *trace) phases() (broken []string) {
	last := map[types.UID]v1.PodPhase{}
	for _, s := range tr.statuses {
		before := last[s.uid]
		if phaseOrder[s.status.Phase] < phaseOrder[before] || phaseOrder[before] == 3 && s.status.Phase != before {
			broken = append(broken, fmt.Sprintf("%s: %s after %s at %s", s.uid, s.status.Phase, before, clock(s.at)))
		}
		last[s.uid] = s.status.Phase
	}
	return broken
}

// ended returns what a status says of ends, current and last.
func ended(s v1.ContainerStatus) []*v1.ContainerStateTerminated {
	var all []*v1.ContainerStateTerminated
	for _, state := range []*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if state != nil {
			all = append(all, state)
		}
	}
	return all
}

func containerStatuses(s v1.PodStatus) []v1.ContainerStatus {
	return append(slices.Clone(s.InitContainerStatuses), s.ContainerStatuses...)
}

func (tr *trace) exitCodes() (broken []string) {
	codes := map[string]int32{}
	// known are the ends with an ID that were told, by pod, container and attempt.
	known := map[string]bool{}
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			if last := c.LastTerminationState.Terminated; last != nil && c.State.Terminated != nil && last.ContainerID == c.State.Terminated.ContainerID && last.ContainerID != "" {
				broken = append(broken, fmt.Sprintf("%s %s: its end is told as that before it, too, at %s", s.uid, c.Name, clock(s.at)))
			}
			for _, end := range ended(c) {
				attempt := c.RestartCount
				if end == c.LastTerminationState.Terminated && (c.State.Running != nil || c.State.Terminated != nil) {
					attempt--
				}
				key := fmt.Sprint(s.uid, c.Name, attempt)
				_, id, _ := strings.Cut(end.ContainerID, "://")
				code, told := codes[id]
				truth := tr.instances[id]
				switch {
				case id == "" && known[key]:
					broken = append(broken, fmt.Sprintf("%s %s: a guess of %d (%s) at %s, its end was told before", s.uid, c.Name, end.ExitCode, end.Reason, clock(s.at)))
				case id == "":
				case told && code != end.ExitCode:
					broken = append(broken, fmt.Sprintf("%s %s: %d after %d at %s", s.uid, c.Name, end.ExitCode, code, clock(s.at)))
				case truth != nil && truth.exitCode >= 0 && !truth.finished.IsZero() && truth.exitCode != end.ExitCode:
					broken = append(broken, fmt.Sprintf("%v ended with %d, told is %d at %s", truth, truth.exitCode, end.ExitCode, clock(s.at)))
				}
				codes[id] = end.ExitCode
				known[key] = known[key] || id != ""
			}
		}
	}
	return broken
}

func (tr *trace) restartCounts() (broken []string) {
	last := map[string]int32{}
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			key := string(s.uid) + " " + c.Name
			if c.RestartCount < last[key] {
				broken = append(broken, fmt.Sprintf("%s: %d after %d at %s", key, c.RestartCount, last[key], clock(s.at)))
			}
			last[key] = c.RestartCount
		}
	}
	return broken
}
