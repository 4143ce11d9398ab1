package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/page"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/timeline"
)

// views are what -serve and -page show of an agent.
type views struct {
	counts  *metrics
	history http.Handler // nil without -serve and -page
	page    *page.Page   // nil without -page
	drain   *drainer
}

// observe makes an agent with this configuration report to its views.
func (o options) observe(c *agent.Config, counts *metrics) views {
	v := views{counts: counts, drain: &drainer{done: make(chan struct{})}}
	if o.serve == "" && o.page == "" {
		return v
	}
	counts.observe(c)
	history := timeline.New(timeline.Config{NodeName: o.node})
	history.Observe(c)
	v.history = history
	if o.page != "" {
		v.page = page.New(page.Config{NodeName: o.node, Timeline: history, Metrics: counts})
		v.page.Observe(c)
	}
	return v
}

// serveAPI serves the API that the commands use, until ctx ends, if -serve is set.
func serveAPI(ctx context.Context, o options, agent *agent.Agent, conn *connection, v views, manifests *source.Folder, say func(string, ...any)) error {
	if o.serve == "" {
		<-ctx.Done()
		return nil
	}
	s, err := server.New(server.Config{
		Agent: agent, Client: conn.Client, Stats: agent.Stats(), NodeName: o.node, StreamTransport: conn.streams,
		Timeline: v.history, Metrics: v.counts, Plan: planner{agent, manifests}, Drain: v.drain,
		Authenticator: clientCertAuth{}, Authorizer: clientCertAuth{},
	})
	if err != nil {
		return err
	}
	if address, ok := addressOf(o.serve); ok {
		err = serveTLS(ctx, address, s, o.certificates, say)
	} else {
		err = s.ServeUnix(ctx, strings.TrimPrefix(o.serve, "unix://"))
	}
	if err != nil {
		return &failure{exitUsage, "Give -serve a path at which a socket can be made, or an address that is free.", fmt.Errorf("-serve %s: %w", o.serve, unprefixed(err, "server: "))}
	}
	return nil
}

// serveTLS serves an address until ctx ends.
func serveTLS(ctx context.Context, address string, s *server.Server, c certificates, say func(string, ...any)) error {
	config, err := c.server()
	if err != nil {
		return err
	}
	web := &http.Server{
		Addr: address, Handler: endingWith(ctx, s), TLSConfig: config, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10,
		ErrorLog: log.New(&complaints{say: say}, "", 0),
	}
	web.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // streams need HTTP/1.1
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		web.Close()
	})
	err = web.ListenAndServeTLS("", "")
	if ctx.Err() == nil {
		return err
	}
	<-stopped
	return nil
}

// complaints prints connection errors, one a minute: each peer that reaches the port can cause any number.
type complaints struct {
	say     func(string, ...any)
	mu      sync.Mutex
	next    time.Time
	leftOut int
}

func (c *complaints) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Before(c.next) {
		c.leftOut++
	} else {
		c.say("%s (%d more since the last such message)", foreign.Line(strings.TrimSpace(string(line))), c.leftOut)
		c.next, c.leftOut = now.Add(time.Minute), 0
	}
	return len(line), nil
}

// endingWith cancels requests when the agent ends.
func endingWith(agent context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(agent, cancel)()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// clientCertAuth authorizes every client, because the TLS handshake has verified its certificate.
type clientCertAuth struct{}

func (clientCertAuth) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return server.User{}, false, nil
	}
	subject := r.TLS.PeerCertificates[0].Subject
	return server.User{Name: subject.CommonName, Groups: subject.Organization}, true, nil
}

func (clientCertAuth) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}
