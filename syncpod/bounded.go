package syncpod

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/foreign"
)

// maxEventMessage limits an event's message, in bytes.
const maxEventMessage = 4 << 10

// boundedEvents bounds the messages for an EventRecorder, and removes the values of Secrets that the pod's containers have
// in their environments.
type boundedEvents struct {
	to    EventRecorder
	known *memories
}

func (b boundedEvents) Eventf(about k8sruntime.Object, kind, reason, format string, args ...any) {
	b.to.Eventf(about, kind, reason, "%s", b.message(about, format, args))
}

func (b boundedEvents) AnnotatedEventf(about k8sruntime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	b.to.AnnotatedEventf(about, annotations, kind, reason, "%s", b.message(about, format, args))
}

func (b boundedEvents) message(about k8sruntime.Object, format string, args []any) string {
	text := fmt.Sprintf(format, args...)
	if ref, ok := about.(*v1.ObjectReference); ok {
		if m := b.known.get(ref.UID); m != nil {
			text = m.secrets.redact(text)
		}
	}
	return foreign.CutText(text, maxEventMessage)
}
