package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/logs"
)

// logOptions parses a log's options from a query. Malformed values return 400, well-formed but
// invalid ones 422.
func logOptions(q url.Values) (*v1.PodLogOptions, error) {
	o := &v1.PodLogOptions{Follow: isTrue(q, "follow"), Previous: isTrue(q, "previous"), Timestamps: isTrue(q, "timestamps")}
	if q.Has("stream") {
		o.Stream = new(q.Get("stream"))
	}
	numbers := map[string]**int64{"tailLines": &o.TailLines, "limitBytes": &o.LimitBytes, "sinceSeconds": &o.SinceSeconds}
	if tail := q.Get("tail"); tail == "all" {
		delete(numbers, "tailLines")
	} else if tail != "" {
		q = url.Values{"tailLines": {tail}, "limitBytes": q["limitBytes"], "sinceSeconds": q["sinceSeconds"], "sinceTime": q["sinceTime"]}
	}
	for name, field := range numbers {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, badRequest("%s: %q is not a number", name, text)
			}
			*field = &n
		}
	}
	if text := q.Get("sinceTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, badRequest("sinceTime: %q is not a time in the format of RFC 3339", text)
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	if invalid := logs.Validate(o); len(invalid) > 0 {
		return nil, &statusError{http.StatusUnprocessableEntity, invalid.ToAggregate()}
	}
	return o, nil
}

// isTrue parses a parameter as the Kubernetes API does: it is true if it is present and not "false"
// or "0".
func isTrue(q url.Values, name string) bool {
	switch strings.ToLower(q.Get(name)) {
	case "false", "0":
		return false
	}
	return q.Has(name)
}

// isOne reads a parameter of a stream.
func isOne(q url.Values, name string) bool { return q.Get(name) == "1" }
