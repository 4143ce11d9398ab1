package timeline

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ServeHTTP serves the page, or the trace if the query has format=trace. pod, as namespace/name or a name in the
// namespace default, selects one pod.
func (t *Timeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pods, query := t.pods(), r.URL.Query()
	if want := query.Get("pod"); want != "" {
		pods = slices.DeleteFunc(pods, func(p podHistory) bool {
			return p.Namespace+"/"+p.Name != want && "default/"+want != p.Namespace+"/"+p.Name
		})
		if len(pods) == 0 {
			http.Error(w, fmt.Sprintf("pod %q is not known", want), http.StatusNotFound)
			return
		}
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch format := query.Get("format"); format {
	case "", "html":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy())
		_ = t.writeHTML(w, pods) // a disconnected caller does not need it
	case "trace":
		w.Header().Set("Content-Type", "application/json")
		_ = writeTrace(w, pods) // as above
	default:
		http.Error(w, fmt.Sprintf("format %q is not known, want one of %s", format, strings.Join([]string{"html", "trace"}, ", ")), http.StatusBadRequest)
	}
}
