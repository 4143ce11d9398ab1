package timeline

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// event is an event of the trace event format that Chrome and Perfetto read. Times are in microseconds.
type event struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	At       int64          `json:"ts"`
	Took     *int64         `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// writeTrace writes pods in Chrome's trace event format, as JSON: each pod is a process, and each
// of its containers a thread, or several if entries overlap. Entries in progress end now.
func writeTrace(w io.Writer, pods []podHistory) error {
	now := time.Now()
	if _, err := io.WriteString(w, `{"displayTimeUnit":"ms","traceEvents":[`); err != nil {
		return err
	}
	separator := "\n"
	for i := range pods {
		for _, e := range traceOf(&pods[i], i+1, now) {
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s%s", separator, text); err != nil {
				return err
			}
			separator = ",\n"
		}
	}
	_, err := io.WriteString(w, "\n]}\n")
	return err
}

func traceOf(p *podHistory, process int, now time.Time) []event {
	name := p.Namespace + "/" + p.Name
	if p.Name == "" {
		name = string(p.UID)
	}
	about := func(what string, thread int, args map[string]any) event {
		return event{Name: what, Phase: "M", Process: process, Thread: thread, Args: args}
	}
	events := []event{
		about("process_name", 0, map[string]any{"name": name}),
		about("process_sort_index", 0, map[string]any{"sort_index": process}),
	}
	threads, lane := map[string]int{}, lanes(p.Entries, now)
	for i := range p.Entries {
		e := &p.Entries[i]
		line := lineName(e.Container, lane[i])
		thread, ok := threads[line]
		if !ok {
			thread = len(threads) + 1
			threads[line] = thread
			events = append(events, about("thread_name", thread, map[string]any{"name": line}), about("thread_sort_index", thread, map[string]any{"sort_index": thread}))
		}
		took := max(e.end(now).Sub(e.Begin).Microseconds(), 0)
		events = append(events, event{
			Name: e.title(), Category: string(e.Kind), Phase: "X", At: e.Begin.UnixMicro(), Took: &took, Process: process, Thread: thread, Args: e.args(),
		})
	}
	return events
}

func lineName(container string, lane int) string {
	if container == "" {
		container = "(pod)"
	}
	switch lane {
	case 0:
		return container
	case 1:
		return container + ": what was done"
	}
	return fmt.Sprintf("%s: what was done (%d)", container, lane)
}

// title describes an entry in a few words.
func (e *entry) title() string {
	name := e.Name
	if e.Kind == kindPull || e.Kind == kindVolume || e.Kind == kindHook {
		name = string(e.Kind) + " " + name
	}
	if e.Failed && !e.Kind.state() {
		name += " failed"
	}
	return name
}

func (e *entry) args() map[string]any {
	args := map[string]any{}
	if e.Reason != "" {
		args["reason"] = e.Reason
	}
	if e.Count > 1 {
		args["times"] = e.Count
	}
	if e.End.IsZero() {
		args["goes on"] = true
	}
	return args
}
