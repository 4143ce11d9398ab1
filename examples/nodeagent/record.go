package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A record is an entry of the output: String returns it as a line of text, and its fields make a JSON object.
type record struct {
	Time time.Time `json:"time"`
	// Kind is Event, Pod for a changed pod, Gone for a removed one, or Message for a line that concerns no pod.
	Kind string `json:"kind"`

	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	// Container is an event's container, empty if the event concerns the pod.
	Container string `json:"container,omitempty"`

	// Type is the type of an event, Normal or Warning.
	Type string `json:"type,omitempty"`
	// Reason is an event's reason, or a pod's state in one word, as kubectl prints it.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	// Level is a message's level: info, warning or error.
	Level level `json:"level,omitempty"`
	// File and Document name a message's manifest. Documents are numbered from 1; without a document the message
	// concerns the whole file.
	File     string `json:"file,omitempty"`
	Document int    `json:"document,omitempty"`

	// Ready and Restarts are the values in kubectl get pods.
	Ready    string `json:"ready,omitempty"`
	Restarts *int32 `json:"restarts,omitempty"`
	// Status is a pod's status.
	Status *v1.PodStatus `json:"status,omitempty"`
}

// A level is a message's severity.
type level string

const (
	levelInfo    level = "info"
	levelWarning level = "warning"
	levelError   level = "error"
)

func (r record) String() string { return printable(r.text()) }

// printable removes control characters from text, and indents lines after the first: file names and answers from
// a runtime may contain anything.
func printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '\n':
			b.WriteString("\n          ")
		case strconv.IsGraphic(c):
			b.WriteRune(c)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

func (r record) text() string {
	switch clock := r.Time.Format(time.TimeOnly); r.Kind {
	case "Event":
		return r.line(clock, r.Type, r.Reason, r.Message)
	case "Pod":
		return r.line(clock, "Pod", r.Reason, r.Ready+" ready, "+plural(int(*r.Restarts), "restart"))
	case "Gone":
		return r.line(clock, "Pod", "Gone", "")
	default:
		return clock + "  " + r.Message
	}
}

// line formats a record in columns.
func (r record) line(clock, kind, reason, message string) string {
	about := r.Name
	if r.Namespace != "default" && r.Namespace != "" { // events of nodes have no namespace
		about = r.Namespace + "/" + about
	}
	if r.Container != "" {
		about += " " + r.Container
	}
	return strings.TrimRight(fmt.Sprintf("%s  %-7s  %-17s  %-22s  %s", clock, kind, reason, about, message), " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
