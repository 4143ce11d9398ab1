package loop

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// lost keeps the subjects of events that are dropped.
type lost struct {
	syncpod.NopObserver
	subjects []types.UID
}

func (l *lost) EventDropped(about k8sruntime.Object, _ string) {
	l.subjects = append(l.subjects, subject(about))
}

// A full queue drops the oldest event of the pod of the new event, so that a pod with
// many events does not displace those of others. If the pod has none, it drops the oldest of all.
func TestFullQueueOfEvents(t *testing.T) {
	var told []string
	asked, open := make(chan struct{}), make(chan struct{})
	observer := &lost{}
	c := Config{Log: logr.Discard(), Sync: syncpod.Config{Observer: observer}}
	if q := queueEvents(&c); q != nil || c.Sync.Events != nil {
		t.Fatal("without a recorder there is a queue")
	}
	c.Sync.Events = syncpod.EventRecorderFunc(func(about k8sruntime.Object, kind, reason, format string, args ...any) {
		if told == nil {
			close(asked)
			<-open
		}
		told = append(told, fmt.Sprintf("%s %s %s %s", about.(*v1.ObjectReference).UID, kind, reason, fmt.Sprintf(format, args...)))
	})
	q := queueEvents(&c)
	tell := func(uid types.UID, number int) {
		q.Eventf(&v1.ObjectReference{UID: uid}, "Normal", "Pulled", "%d %s", number, "100%")
	}
	tell("slow", 0)
	<-asked
	tell("quiet", 0)
	for i := range maxEvents + 5 {
		tell("loud", i)
	}
	if got := fmt.Sprint(observer.subjects); got != "[loud loud loud loud loud loud]" {
		t.Fatalf("dropped %s, want %q", got, "[loud loud loud loud loud loud]")
	}
	tell("new", 0)
	if got := observer.subjects[6]; got != "quiet" {
		t.Fatalf("dropped %s, want the oldest of all", got)
	}
	close(open)
	q.flush()
	if len(told) != 1+maxEvents || told[1] != "loud Normal Pulled 6 100%" || told[maxEvents] != "new Normal Pulled 0 100%" {
		t.Errorf("%d events, from %s to %s", len(told), told[1], told[len(told)-1])
	}
	tell("late", 0)
	if got := observer.subjects[7]; got != "late" || len(told) != 1+maxEvents {
		t.Errorf("dropped %s, want %q, and no more than %d events told", got, "late", 1+maxEvents)
	}
}
