package server

import (
	"errors"
	"net/http"
	"path"
	"strings"
)

// A route is a path, or several that are served alike.
type route struct {
	patterns     []string
	subresources []string // permission for one of them suffices
	acts         bool     // it does something in a container, whatever the method
	debugs       bool     // it is not served with Config.NoDebugging
	open         bool     // without authentication
	noted        bool     // it has a line in the log; streams write their own
	serve        func(http.ResponseWriter, *http.Request) error
}

var (
	proxyOnly = []string{"proxy"}
	podsToo   = []string{"pods", "proxy"}

	metricsOnly = []string{"metrics"}
)

func (s *Server) table() []route {
	return []route{
		{patterns: []string{"GET /containerLogs/{namespace}/{pod}/{container}"}, subresources: proxyOnly, debugs: true, serve: s.serveLogs},
		{patterns: inContainer("GET /exec", "POST /exec"), subresources: proxyOnly, acts: true, debugs: true, serve: s.serveExec},
		{patterns: inContainer("GET /attach", "POST /attach"), subresources: proxyOnly, acts: true, debugs: true, serve: s.serveAttach},
		{patterns: inPod("GET /portForward", "POST /portForward"), subresources: proxyOnly, acts: true, debugs: true, serve: s.servePortForward},
		{patterns: inContainer("POST /run"), subresources: proxyOnly, acts: true, debugs: true, serve: s.whole(s.serveRun)},
		{patterns: []string{"POST /checkpoint/{namespace}/{pod}/{container}"}, subresources: []string{"checkpoint"}, acts: true, serve: s.whole(s.serveCheckpoint)},
		{patterns: []string{"GET /pods", "GET /pods/{$}"}, subresources: podsToo, noted: true, serve: s.whole(s.servePods)},
		{patterns: []string{"GET /runningpods", "GET /runningpods/{$}"}, subresources: podsToo, debugs: true, noted: true, serve: s.whole(s.serveRunningPods)},
		{patterns: []string{"GET /stats/summary", "GET /stats/summary/{$}"}, subresources: []string{"stats"}, serve: s.whole(s.serveSummary)},
		{patterns: []string{"GET /metrics", "GET /metrics/probes"}, subresources: metricsOnly, serve: s.whole(s.serveMetrics)},
		{patterns: []string{"GET /timeline"}, subresources: proxyOnly, debugs: true, noted: true, serve: s.whole(s.serveTimeline)},
		{patterns: []string{"POST /plan"}, subresources: proxyOnly, debugs: true, noted: true, serve: s.whole(s.servePlan)},
		{patterns: []string{"POST /drain"}, subresources: proxyOnly, acts: true, debugs: true, noted: true, serve: s.serveDrain},
		{patterns: []string{"GET /explain/{namespace}/{pod}"}, subresources: proxyOnly, debugs: true, noted: true, serve: s.whole(s.serveExplain)},
		{patterns: []string{"GET /metrics/resource"}, subresources: metricsOnly, serve: s.whole(s.serveResourceMetrics)},
		{patterns: []string{"GET /metrics/cadvisor"}, subresources: metricsOnly, serve: s.whole(s.serveCadvisor)},
		{patterns: []string{"GET /healthz"}, subresources: []string{"healthz", "proxy"}, open: true, serve: s.serveHealth},
		{patterns: []string{"GET /healthz/{check}"}, subresources: []string{"healthz", "proxy"}, serve: s.serveCheck},
		{patterns: []string{"GET /configz"}, subresources: []string{"configz", "proxy"}, debugs: true, noted: true, serve: s.whole(s.serveConfigz)},
		{patterns: []string{"GET /logs", "GET /logs/{path...}"}, subresources: []string{"log"}, debugs: true, noted: true, serve: s.serveNodeLogs},
	}
}

// inContainer and inPod return an operation's paths, with and without the pod's UID.
func inContainer(prefixes ...string) (patterns []string) {
	for _, p := range prefixes {
		patterns = append(patterns, p+"/{namespace}/{pod}/{container}", p+"/{namespace}/{pod}/{uid}/{container}")
	}
	return patterns
}

func inPod(prefixes ...string) (patterns []string) {
	for _, p := range prefixes {
		patterns = append(patterns, p+"/{namespace}/{pod}", p+"/{namespace}/{pod}/{uid}")
	}
	return patterns
}

func (s *Server) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range s.table() {
		for _, pattern := range route.patterns {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, route) })
		}
	}
	return mux
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.routes.Handler(r)
	if pattern != "" && isClean(r.URL.Path) {
		s.routes.ServeHTTP(w, r)
		return
	}
	// A caller without permissions must not find out which paths exist.
	s.answer(w, r, route{subresources: proxyOnly, serve: func(w http.ResponseWriter, r *http.Request) error {
		if isClean(r.URL.Path) {
			s.routes.ServeHTTP(w, r) // it responds with the allowed methods
			return nil
		}
		return notFound("there is no path %q", r.URL.Path)
	}})
}

// isClean reports whether a path is unambiguous.
func isClean(p string) bool {
	return strings.HasPrefix(p, "/") && (path.Clean(p) == p || path.Clean(p)+"/" == p)
}

// answer serves a request if it is admitted.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, route route) {
	isolate(w.Header())
	r, ok := s.admit(w, r, route)
	if !ok {
		return
	}
	if err := s.checkOrigin(r, route.acts); err != nil {
		writeError(w, err)
		return
	}
	if route.debugs && s.config.NoDebugging {
		http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed) // the text is a kubelet's
		return
	}
	if route.noted {
		s.note(r)
	}
	if err := route.serve(w, r); err != nil {
		writeError(w, err)
	}
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, err error) {
	var status *statusError
	if !errors.As(err, &status) {
		status = &statusError{http.StatusInternalServerError, err}
	}
	http.Error(w, status.Error(), status.code)
}
