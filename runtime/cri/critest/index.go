package critest

// groups finds the members of a group without a scan of other groups.
type groups[T any] map[string]map[string]T // by group, by ID

func (g groups[T]) add(group, id string, member T) {
	if g[group] == nil {
		g[group] = map[string]T{}
	}
	g[group][id] = member
}

func (g groups[T]) remove(group, id string) {
	if delete(g[group], id); len(g[group]) == 0 {
		delete(g, group)
	}
}

// The functions below add and remove an object. They must be called with mu held.
func (r *Runtime) knowContainer(c *container) {
	r.containers[c.id] = c
	r.containersIn.add(c.sandbox.id, c.id, c)
	r.containersOfPod.add(c.podUID, c.id, c)
}

func (r *Runtime) forgetContainer(c *container) {
	delete(r.containers, c.id)
	r.containersIn.remove(c.sandbox.id, c.id)
	r.containersOfPod.remove(c.podUID, c.id)
}

func (r *Runtime) knowSandbox(sb *sandbox) {
	r.sandboxes[sb.id] = sb
	r.addresses.take(sb.ips)
	r.sandboxesOfPod.add(sb.podUID, sb.id, sb)
}

func (r *Runtime) forgetSandbox(sb *sandbox) {
	if r.sandboxes[sb.id] == sb {
		r.addresses.release(sb.ips)
	}
	delete(r.sandboxes, sb.id)
	r.sandboxesOfPod.remove(sb.podUID, sb.id)
}
