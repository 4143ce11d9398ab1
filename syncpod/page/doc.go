// Package page serves a live web page about an agent's pods: their states, their next steps and the reasons, events,
// and rejected manifests. A program imports it to show its pods to the person who operates the machine.
//
//	view := page.New(page.Config{NodeName: "edge-7", Timeline: history})
//	view.Observe(&config)
//	agent, err := agent.New(config)
//	listener, err := net.Listen("tcp", "127.0.0.1:8080")
//	err = page.Serve(ctx, listener, view.Handler(agent))
//
// The page only reads: no request changes anything, and no log of a container and no value of a variable is on it.
//
// # Who may read it
//
// The page has no authentication: all users of the machine, and pods in its network namespace, can read it. [Serve]
// therefore accepts only a listener on a loopback address. A [Page.Handler] rejects requests whose Host is neither
// localhost nor a loopback address, because a web site could otherwise make a browser read the page under the site's own
// name (DNS rebinding). It also rejects requests from pages of other sites.
//
// Names, images, events and errors enter the document as text only, with control characters escaped. The policy of the
// page allows its own script and style, and no other.
//
// # Cost
//
// Nothing is computed while nobody looks. A browser asks once a second while the page is visible. All viewers share an
// answer for a second, and after each computation the handler rests for 20 times its duration, so that viewers cost at most
// a twentieth of one processor, however many pods there are.
package page

// The files:
//
//	page.go    Config, Page: the events
//	state.go   the pods, their containers, and problems
//	handler.go requests: which are rejected, and what they cost; serve.go the listener
//	page_html.go, page_style.go, page_script.go the document
