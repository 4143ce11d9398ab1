package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/foreign"
)

// A usage is the resource usage of the node or a pod: the part of the stats API's JSON that top
// prints.
type usage struct {
	Name, NodeName string
	PodRef         struct{ Namespace, Name string }
	CPU            *struct{ UsageNanoCores *uint64 }
	Memory         *struct{ WorkingSetBytes *uint64 }
	Containers     []usage
}

type usages struct {
	Node usage
	Pods []usage
}

// rateAfter is a little longer than the minimum interval between two measurements from which the agent computes a rate.
const rateAfter = 1100 * time.Millisecond

// printTop is nodeagent top.
func printTop(ctx context.Context, l *invocation) error {
	all, err := l.usages(ctx)
	if err == nil && !all.rated() {
		select {
		case <-time.After(rateAfter):
			all, err = l.usages(ctx)
		case <-ctx.Done():
			return nil // interrupted
		}
	}
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(l.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAME\tCPU(cores)\tMEMORY(bytes)")
	if len(l.names) == 0 {
		all.Node.print(t, all.Node.NodeName)
		for _, pod := range all.Pods {
			pod.print(t, pod.name())
		}
		return t.Flush()
	}
	namespace, name := l.pod()
	for _, pod := range all.Pods {
		if pod.PodRef.Namespace == namespace && pod.PodRef.Name == name {
			pod.print(t, pod.name())
			for _, c := range pod.Containers {
				c.print(t, "  "+c.Name)
			}
			return t.Flush()
		}
	}
	return fmt.Errorf("pod %q does not run", namespace+"/"+name)
}

func (l *invocation) usages(ctx context.Context) (all usages, err error) {
	resp, err := l.get(ctx, "/stats/summary?only_cpu_and_memory=true")
	if err != nil {
		return all, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&all)
	return all, err
}

// rated reports whether each usage with a CPU measurement also has a rate.
func (a *usages) rated() bool {
	lacks := func(u usage) bool { return u.CPU != nil && u.CPU.UsageNanoCores == nil }
	for _, pod := range a.Pods {
		for _, c := range pod.Containers {
			if lacks(c) {
				return false
			}
		}
		if lacks(pod) {
			return false
		}
	}
	return !lacks(a.Node)
}

func (u *usage) name() string {
	if u.PodRef.Namespace == v1.NamespaceDefault {
		return u.PodRef.Name
	}
	return u.PodRef.Namespace + "/" + u.PodRef.Name
}

// print prints a line as kubectl top does, in thousandths of a CPU and in MiB.
func (u *usage) print(t *tabwriter.Writer, name string) {
	cpu, memory := "<unknown>", "<unknown>"
	if u.CPU != nil && u.CPU.UsageNanoCores != nil {
		cpu = fmt.Sprintf("%dm", (*u.CPU.UsageNanoCores+1e6-1)/1e6)
	}
	if u.Memory != nil && u.Memory.WorkingSetBytes != nil {
		memory = fmt.Sprintf("%dMi", *u.Memory.WorkingSetBytes>>20)
	}
	fmt.Fprintf(t, "%s\t%s\t%s\n", foreign.Line(name), cpu, memory)
}
