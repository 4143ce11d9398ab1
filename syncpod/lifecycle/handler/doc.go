// Package handler runs the lifecycle container handlers, postStart and preStop.
// A program that starts or stops containers imports it to run their hooks.
//
// A handler executes a command in the container, sends an HTTP request, or sleeps (KEP-3960).
// tcpSocket exists in the API for compatibility only, and is rejected.
//
// A [Runner] is a kubelet's HandlerRunner. It needs a runtime's ExecSync, and no pod:
//
//	runner, err := handler.New(handler.Config{Exec: client})
//	_, err = runner.Run(ctx, handler.Request{Handler: c.Lifecycle.PostStart, Container: c.Name, ContainerID: id, Ports: c.Ports, PodIP: ip})
//
// Handlers need no API defaults.
//
// # Time
//
// [Runner.Run] has no timeout of its own. It ends with its context, whatever the command or the
// endpoint does, and leaves no goroutine behind, so a limit such as a stop's grace period is kept.
// The context's deadline is also passed to the runtime as the command's timeout, for runtimes that
// do not end a command when the call is cancelled.
//
// There are two exceptions: an Execer or a Dial function that does not return when its context
// ends, and a host given by name, which Go's resolver may continue to look up for a while.
//
// # Secrets
//
// Commands, URLs, headers, responses and output may contain secrets. Errors contain none,
// so they can be published in events and statuses. The output or response is in the [Result], with
// bounded size, for a caller that chooses to log it.
//
// # HTTP
//
// A handler's httpGet succeeds with any response, even one of status 500, as in a kubelet. The
// status is in the Result. Also as in a kubelet, no proxy is used, certificates are not verified,
// at most ten redirects are followed and only to the same host, and a plain HTTP response to an
// https request causes a second request without TLS and without the Authorization header.
package handler

// Where each rule lives:
//
//	hook.go         Runner
//	request.go      Request: which handler of a spec or of annotations
//	exec.go         commands
//	http.go         HTTP requests
//	handler.go      the address of a pod's handlers, and the event of a fallback to HTTP, and handlers in annotations
//	error.go        Error
