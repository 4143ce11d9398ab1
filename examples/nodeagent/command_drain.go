package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/agent"
)

// drainedLine is the last line of a successful drain.
const drainedLine = "All pods have stopped, and the agent ends."

// A drainer serves nodeagent drain.
type drainer struct {
	agent *agent.Agent // set, as say, before it serves
	say   func(string, ...any)
	end   sync.Once
	// done is closed when all pods have stopped.
	done chan struct{}
}

// ServeHTTP stops all pods, and writes a line whenever one has stopped. The query has the timeout. If the caller disconnects,
// the pods stop nevertheless, as on a timeout.
func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		http.Error(w, "the timeout is not a positive duration, such as 5m", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	d.say("Stopping all pods, for nodeagent drain.")
	drained := make(chan error, 1)
	go func() { drained <- d.agent.Drain(ctx) }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write := func(format string, args ...any) {
		fmt.Fprintf(w, format+"\n", args...)
		_ = http.NewResponseController(w).Flush() // a caller that is gone does not need it
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for before := -1; ; {
		select {
		case <-tick.C:
			if names := d.left(); len(names) > 0 && len(names) != before {
				before = len(names)
				write("%s to stop: %s", plural(before, "pod"), foreign.Line(someOf(names)))
			}
		case err := <-drained:
			if err != nil {
				write("Not all pods have stopped: %s", foreign.Line(unprefixed(err, "podworkers: ").Error()))
				return
			}
			write(drainedLine)
			d.end.Do(func() { close(d.done) })
			return
		}
	}
}

// left returns the names of the pods that have not stopped.
func (d *drainer) left() []string {
	var names []string
	for _, p := range d.agent.Pods() {
		if name := p.Pod.Name; !p.Phase.HasStopped() {
			if p.Pod.Namespace != v1.NamespaceDefault {
				name = p.Pod.Namespace + "/" + name
			}
			names = append(names, name)
		}
	}
	return names
}

// printDrain is nodeagent drain.
func printDrain(ctx context.Context, l *invocation) error {
	if len(l.names) > 0 {
		return wrongUsage{fmt.Errorf("unexpected argument %q: all pods are stopped. Remove a manifest to stop one pod", l.names[0])}
	}
	resp, err := l.send(ctx, http.MethodPost, "/drain?"+url.Values{"timeout": {l.timeout.String()}}.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	last := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		last = foreign.Line(lines.Text())
		fmt.Fprintln(l.out, last)
	}
	if last != drainedLine {
		return errors.New("the agent goes on stopping the pods, and does not end; nodeagent drain waits again")
	}
	return nil
}
