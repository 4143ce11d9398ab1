package critest

import (
	"cmp"
	"iter"
	"slices"
)

// groups finds the members of a group without a scan of other groups. A group has few members.
type groups[T comparable] map[string][]T

// add adds a new member.
func (g groups[T]) add(group string, member T) { g[group] = append(g[group], member) }

func (g groups[T]) remove(group string, member T) {
	g[group] = slices.DeleteFunc(g[group], func(other T) bool { return other == member })
	if len(g[group]) == 0 {
		delete(g, group)
	}
}

// oldestFirst returns the objects for which keep returns true, oldest first. A nil keep keeps all objects.
func oldestFirst[T interface{ sequence() int }](from iter.Seq[T], keep func(T) bool) []T {
	var kept []T
	for o := range from {
		if keep == nil || keep(o) {
			kept = append(kept, o)
		}
	}
	slices.SortFunc(kept, func(a, b T) int { return cmp.Compare(a.sequence(), b.sequence()) })
	return kept
}

func (c *container) sequence() int { return c.seq }
func (s *sandbox) sequence() int   { return s.seq }

// The functions below add and remove an object. They must be called with mu held.
func (r *Runtime) knowContainer(c *container) {
	r.containers[c.id] = c
	r.containersIn.add(c.sandbox.id, c)
	r.containersOfPod.add(c.podUID, c)
}

func (r *Runtime) forgetContainer(c *container) {
	delete(r.containers, c.id)
	r.containersIn.remove(c.sandbox.id, c)
	r.containersOfPod.remove(c.podUID, c)
}

func (r *Runtime) knowSandbox(sb *sandbox) {
	r.sandboxes[sb.id] = sb
	r.addresses.take(sb.ips)
	r.sandboxesOfPod.add(sb.podUID, sb)
}

func (r *Runtime) forgetSandbox(sb *sandbox) {
	if r.sandboxes[sb.id] == sb {
		r.addresses.release(sb.ips)
	}
	delete(r.sandboxes, sb.id)
	r.sandboxesOfPod.remove(sb.podUID, sb)
}
