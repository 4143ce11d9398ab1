package fleet

import "k8s.io/client-go/tools/record"

// Events returns the recorder that all nodes share.
func (f *Fleet) Events() record.EventRecorder { return f.events }
