package critest

import "slices"

// groups finds the members of a group without a scan of other groups. A group has few members.
type groups[T comparable] map[string][]T

func (g groups[T]) add(group string, member T) {
	if !slices.Contains(g[group], member) {
		g[group] = append(g[group], member)
	}
}

func (g groups[T]) remove(group string, member T) {
	i := slices.Index(g[group], member)
	if i < 0 {
		return
	}
	if g[group] = slices.Delete(g[group], i, i+1); len(g[group]) == 0 {
		delete(g, group)
	}
}

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
