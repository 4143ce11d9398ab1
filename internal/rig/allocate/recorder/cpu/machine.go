package main

import (
	"math/rand/v2"

	cadvisorapi "github.com/google/cadvisor/info/v1"
)

// machine returns a random machine of at most 512 CPUs: 1 to 8 NUMA nodes, several sockets for each or several for each socket, 1 to 4
// threads for each core, and offline CPUs.
func machine(r *rand.Rand) *cadvisorapi.MachineInfo {
	units := pick(r, 1, 1, 2, 2, 2, 3, 4, 4, 6, 8) // a NUMA node, or a socket if that is smaller
	perSocket, perNode := 1, 1
	switch r.IntN(4) {
	case 0:
		perSocket = pick(r, 2, 2, 4, 8)
	case 1:
		perNode = pick(r, 2, 2, 4)
	}
	threads := pick(r, 1, 2, 2, 2, 2, 4)
	most := 512 / units / threads
	cores := 1 + r.IntN(min(most, pick(r, 4, 8, 16, 64)))
	asymmetric := oneIn(r, 4)
	offline := pick(r, 0, 0, 0, 0, 0, 20, 4)
	adjacent := oneIn(r, 2) // the threads of a core are neighbours
	perCache := pick(r, 0, 0, 1, 2, 3, 4, 8, cores)
	gap := oneIn(r, 8)

	sizes, total := make([]int, units), 0
	for u := range sizes {
		sizes[u] = cores
		if asymmetric {
			sizes[u] = 1 + r.IntN(cores)
		}
		total += sizes[u]
	}
	nodes := map[int]*cadvisorapi.Node{}
	var order []int
	coreID, cacheID := 0, 0
	for u, size := range sizes {
		node, socket := u/perNode, u/perSocket
		if gap && node > 0 {
			node += 2
		}
		if gap && socket > 0 {
			socket += 3
		}
		if nodes[node] == nil {
			nodes[node] = &cadvisorapi.Node{Id: node}
			order = append(order, node)
		}
		for c := range size {
			if perCache > 0 && c%perCache == 0 {
				cacheID++
			}
			core := cadvisorapi.Core{Id: c, SocketID: socket}
			if perCache > 0 {
				core.UncoreCaches = []cadvisorapi.Cache{{Id: cacheID, Level: 3, Type: "Unified"}}
			}
			for t := range threads {
				id := t*total + coreID
				if adjacent {
					id = coreID*threads + t
				}
				if offline == 0 || id == 0 || !oneIn(r, offline) {
					core.Threads = append(core.Threads, id)
				}
			}
			coreID++
			if len(core.Threads) > 0 {
				nodes[node].Cores = append(nodes[node].Cores, core)
			}
		}
	}
	m := &cadvisorapi.MachineInfo{}
	sockets := map[int]bool{}
	for _, id := range order {
		node := nodes[id]
		if len(node.Cores) == 0 {
			continue
		}
		for _, core := range node.Cores {
			m.NumCores += len(core.Threads)
			m.NumPhysicalCores++
			sockets[core.SocketID] = true
		}
		m.Topology = append(m.Topology, *node)
	}
	m.NumSockets = len(sockets)
	return m
}
