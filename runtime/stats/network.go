package stats

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// notOfNode lists prefixes of interfaces whose traffic also passes another interface of the node,
// or never leaves it.
var notOfNode = []string{"lo", "veth", "docker", "nerdctl"}

// nodeNetwork reads the network namespace of process 1, because the agent may run in its own
// namespace.
func (f *files) nodeNetwork(now time.Time) *Network {
	text, ok := f.must("proc/1/net/dev")
	if !ok {
		return nil
	}
	return newNetwork(now, f.interfaces("proc/1/net/dev", text, notOfNode))
}

// processNetwork reads a process's network namespace.
func (f *files) processNetwork(now time.Time, pid string) *Network {
	name := "proc/" + pid + "/net/dev"
	text, ok := f.read(name)
	if !ok {
		return nil
	}
	return newNetwork(now, f.interfaces(name, text, []string{"lo"}))
}

// interfaces returns the interfaces in /proc/.../net/dev whose names have none of the prefixes.
func (f *files) interfaces(file string, text []byte, without []string) (list []Interface) {
	if !bytes.HasPrefix(text, []byte("Inter-|")) {
		f.wrong(file, "it is no table of interfaces")
		return nil
	}
	for line := range bytes.Lines(text) {
		name, rest, isInterface := strings.Cut(string(line), ":")
		name = strings.TrimSpace(name)
		if !isInterface || slices.ContainsFunc(without, func(s string) bool { return strings.HasPrefix(name, s) }) {
			continue // the first two lines are the table's header
		}
		columns := strings.Fields(rest)
		if len(columns) < 16 {
			f.wrong(file, "interface %.40q has %d columns, not 16", name, len(columns))
			continue
		}
		number := func(i int) *uint64 { return f.parse(file, name, columns[i]) }
		known := func(i int) *uint64 { // a further invalid column adds no information
			if n, err := strconv.ParseUint(columns[i], 10, 64); err == nil {
				return &n
			}
			return nil
		}
		list = append(list, Interface{Name: name, RxBytes: number(0), RxErrors: number(2), TxBytes: number(8), TxErrors: number(10),
			RxPackets: known(1), RxDropped: known(3), TxPackets: known(9), TxDropped: known(11)})
	}
	return list
}

// newNetwork returns nil if there is no interface.
func newNetwork(now time.Time, list []Interface) *Network {
	if len(list) == 0 {
		return nil
	}
	n := &Network{Time: now, Interfaces: list}
	if i := slices.IndexFunc(list, func(i Interface) bool { return i.Name == "eth0" }); i >= 0 {
		n.Interface = list[i]
	}
	return n
}
