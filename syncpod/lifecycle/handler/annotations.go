package handler

import (
	"encoding/json"
	"fmt"

	"github.com/podsync/podsync/runtime"
)

// PreStop returns the request for a container's preStop handler from the container's annotations. Use it
// for a container whose pod's spec is unknown. The Handler is nil if the annotations have none. The
// caller sets Container, ContainerID and PodIP.
func PreStop(annotations map[string]string) (Request, error) {
	var req Request
	if err := fromJSON(annotations, runtime.AnnotationPreStopHandler, &req.Handler); err != nil || req.Handler == nil {
		return Request{}, err
	}
	if err := fromJSON(annotations, runtime.AnnotationPorts, &req.Ports); err != nil {
		return Request{}, err
	}
	return req, nil
}

func fromJSON(annotations map[string]string, key string, into any) error {
	text := annotations[key]
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("handler: annotation %s: %w", key, err)
	}
	return nil
}
