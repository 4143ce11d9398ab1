package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/foreign"
)

const (
	// fresh is how long viewers share an answer.
	fresh = time.Second
	// restFactor times the duration of a computation must pass before the next one begins.
	restFactor = 20
	// patience is the maximum wait of a request for its computation.
	patience = 10 * time.Second
	// maxRequests limits the requests at a time: each may hold an answer that was not read yet.
	maxRequests = 16
)

// A handler serves a Page for an agent.
type handler struct {
	page     *Page
	agent    Agent
	document []byte
	policy   string
	routes   *http.ServeMux
	// turn has an element while something is computed, and while the handler rests afterwards. requests has one for each
	// request.
	turn, requests chan struct{}

	mu     sync.Mutex
	answer []byte // of /state
	tag    string
	until  time.Time
}

// Handler serves the page of an agent that was made with the observed configuration:
//
//	GET /          the page
//	GET /state     all pods, as JSON for the page's script
//	GET /pod       uid: a pod, as JSON for the page's script
//	GET /timeline  pod; Config.Timeline
//	GET /metrics   Config.Metrics
//
// It rejects all other methods, and requests that a browser makes for another site. It has no authentication: serve it
// with [Serve], or behind a check of your own.
func (p *Page) Handler(a Agent) http.Handler {
	h := &handler{
		page: p, agent: a, routes: http.NewServeMux(), turn: make(chan struct{}, 1), requests: make(chan struct{}, maxRequests),
		document: []byte(strings.NewReplacer("@STYLE@", style, "@SCRIPT@", script).Replace(html)),
		policy: "default-src 'none'; connect-src 'self'; frame-src 'self'; img-src data:; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
			"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
	}
	h.routes.HandleFunc("/{$}", h.serveDocument)
	h.routes.HandleFunc("/state", h.serveState)
	h.routes.HandleFunc("/pod", h.servePod)
	if p.config.Timeline != nil {
		h.routes.HandleFunc("/timeline", h.inTurn(p.config.Timeline))
	}
	if p.config.Metrics != nil {
		h.routes.HandleFunc("/metrics", h.inTurn(p.config.Metrics))
	}
	return h
}

// hashOf returns the hash of a script or style, for the policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// ServeHTTP serves a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Header().Set("Content-Security-Policy", h.policy)
	switch {
	case !isLocal(r.Host):
		http.Error(w, "Open the page as http://localhost or by a loopback address: another name could be that of a foreign site.", http.StatusMisdirectedRequest)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The page only reads.", http.StatusMethodNotAllowed)
		return
	case isForeign(r):
		http.Error(w, "A page of another site made this request.", http.StatusForbidden)
		return
	}
	select {
	case h.requests <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("There are %d other requests.", maxRequests), http.StatusTooManyRequests)
		return
	}
	defer func() { <-h.requests }()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	h.routes.ServeHTTP(w, r.WithContext(ctx))
}

// isLocal reports whether a Host is localhost or a loopback address, with any port.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}

// isForeign reports whether a browser makes a request for a page of another site. A link on another site may open the
// page.
func isForeign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// compute calls do, one call at a time. The next one begins after a rest, so that viewers never make the agent busy.
func (h *handler) compute(ctx context.Context, do func()) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return errors.New("the agent is busy with other requests")
	}
	began := time.Now()
	defer func() { time.AfterFunc(restFactor*time.Since(began), func() { <-h.turn }) }()
	do()
	return nil
}

func (h *handler) serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(h.document) // a disconnected viewer does not need it
}

// serveState serves the state, or 304 if it is the one that the viewer has.
func (h *handler) serveState(w http.ResponseWriter, r *http.Request) {
	answer, tag := h.last()
	if answer == nil {
		err := h.compute(r.Context(), func() {
			if answer, tag = h.last(); answer == nil {
				answer, tag = h.renew()
			}
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // as above
}

// last returns the last answer, nil if it is too old.
func (h *handler) last() ([]byte, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().After(h.until) {
		return nil, ""
	}
	return h.answer, h.tag
}

func (h *handler) renew() ([]byte, string) {
	text := encode(h.page.stateOf(h.agent))
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.tag, h.until = text, fmt.Sprintf(`"%x"`, sum.Sum64()), time.Now().Add(fresh)
	return h.answer, h.tag
}

func (h *handler) servePod(w http.ResponseWriter, r *http.Request) {
	var text []byte
	uid := r.URL.Query().Get("uid")
	err := h.compute(r.Context(), func() {
		if d, ok := h.page.detailOf(h.agent, types.UID(uid)); ok {
			text = encode(d)
		}
	})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case text == nil:
		http.Error(w, "there is no pod with the UID "+foreign.Word(uid), http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // as above
	}
}

// encode returns a value as JSON, which cannot fail for the types of this package.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}

// inTurn computes another handler's answer, and sends it afterwards: a slow viewer delays no other.
func (h *handler) inTurn(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &answer{header: w.Header(), code: http.StatusOK}
		if err := h.compute(r.Context(), func() { next.ServeHTTP(a, r) }); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(a.code)
		_, _ = w.Write(a.body.Bytes()) // as above
	}
}

// An answer buffers a response.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
