package page

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

// Config configures a Page. A zero field means its default.
type Config struct {
	// NodeName is in the page's title. Default: none.
	NodeName string
	// Timeline serves /timeline, the history of all pods, or one with the query pod=NAMESPACE/NAME. A *timeline.Timeline
	// implements it. Default: the page has no history.
	Timeline http.Handler
	// Metrics serves /metrics. Default: the path does not exist.
	Metrics http.Handler
}

// A Page keeps the newest events of an agent's pods, and serves them with the agent's state. Its methods may be called
// concurrently.
type Page struct {
	config Config

	mu sync.Mutex
	// events are in the order of their last occurrence.
	events []*event
}

const (
	// maxEvents and maxPodEvents limit the events that a Page keeps, for all pods and for one.
	maxEvents, maxPodEvents = 2000, 25
	// shownEvents limits the events in the list for all pods.
	shownEvents = 200
	// maxMessage bounds an event's text, in bytes.
	maxMessage = 1 << 10
)

// An event is an event as the page shows it. Times are in milliseconds since the Unix epoch.
type event struct {
	UID       types.UID `json:"u,omitempty"`
	Namespace string    `json:"ns,omitempty"`
	Name      string    `json:"n,omitempty"`
	Container string    `json:"c,omitempty"`
	Warning   bool      `json:"w,omitempty"`
	Reason    string    `json:"r"`
	Message   string    `json:"m"`
	Count     int       `json:"x,omitempty"`
	Last      int64     `json:"t"`
}

// New returns a Page without events.
func New(c Config) *Page { return &Page{config: c} }

// Observe makes an agent with this configuration report its events to the Page, and to the configuration's recorder.
func (p *Page) Observe(c *agent.Config) {
	if c == nil {
		return
	}
	c.Sync.Events = recorder{p, c.Sync.Events}
}

// A recorder records events, and forwards them.
type recorder struct {
	page *Page
	next syncpod.EventRecorder // nil if there is none
}

func (r recorder) Eventf(object k8sruntime.Object, kind, reason, format string, args ...any) {
	r.page.record(object, kind, reason, fmt.Sprintf(format, args...))
	if r.next != nil {
		r.next.Eventf(object, kind, reason, format, args...)
	}
}

func (r recorder) AnnotatedEventf(object k8sruntime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	r.page.record(object, kind, reason, fmt.Sprintf(format, args...))
	if r.next != nil {
		r.next.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}

// record keeps an event. An event that repeats an earlier one counts it.
func (p *Page) record(object k8sruntime.Object, kind, reason, message string) {
	e := &event{Warning: kind == v1.EventTypeWarning, Reason: foreign.Word(reason), Message: foreign.Cut(strings.TrimSpace(message), maxMessage)}
	if about, ok := object.(*v1.ObjectReference); ok {
		_, container, _ := strings.Cut(about.FieldPath, "{") // spec.containers{name}
		e.UID, e.Namespace, e.Name = about.UID, foreign.Line(about.Namespace), foreign.Line(about.Name)
		e.Container = foreign.Line(strings.TrimSuffix(container, "}"))
	} else if about, ok := object.(metav1.Object); ok {
		e.UID, e.Namespace, e.Name = about.GetUID(), foreign.Line(about.GetNamespace()), foreign.Line(about.GetName())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	same := slices.IndexFunc(p.events, func(other *event) bool {
		was := *other
		was.Count, was.Last = 0, 0
		return was == *e
	})
	e.Last, e.Count = time.Now().UnixMilli(), 1
	if same >= 0 {
		e.Count += p.events[same].Count
		p.events = slices.Delete(p.events, same, same+1)
	}
	p.events = append(p.events, e)
	if oldest := p.surplus(e.UID); oldest >= 0 {
		p.events = slices.Delete(p.events, oldest, oldest+1)
	}
}

// surplus returns the index of the event to drop after a pod's event, -1 for none.
func (p *Page) surplus(uid types.UID) int {
	first, count := -1, 0
	for i, e := range p.events {
		if e.UID == uid {
			if count++; first < 0 {
				first = i
			}
		}
	}
	switch {
	case count > maxPodEvents:
		return first
	case len(p.events) > maxEvents:
		return 0
	}
	return -1
}

// newest returns up to n events, the newest first: for all pods, or for one.
func (p *Page) newest(n int, uid types.UID) []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := []event{}
	for _, e := range slices.Backward(p.events) {
		if len(found) < n && (uid == "" || e.UID == uid) {
			found = append(found, *e)
		}
	}
	return found
}
