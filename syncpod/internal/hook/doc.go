// Package hook runs the lifecycle handlers of containers: what a pod's author
// wants done after a start (postStart) and before a stop (preStop).
//
// A handler executes a command in the container, gets a URL, or sleeps
// (KEP-3960). tcpSocket stands in the API for compatibility only and is refused.
//
// # Time
//
// [Runner.Run] has no timeout of its own. It ends with its context, whatever
// the command or the endpoint does, and leaves no goroutine behind: whoever
// gives a handler a bound, such as the grace period of a stop, keeps it. A
// context's deadline also goes to the runtime as the command's timeout, for
// runtimes that do not end a command when the call is cancelled.
//
// Two things are outside of that promise: an Execer or a Dial function that does
// not return when its context ends, and a host given by name, which Go's
// resolver may go on looking up for a while.
//
// # Secrets
//
// Commands, URLs, headers, answers and output may hold secrets. Errors hold
// none of them, so they can go into events and statuses. What was printed or
// answered is in the [Result], bounded, for a caller that chooses to log it.
//
// # HTTP
//
// A handler's httpGet succeeds with any answer, even one of status 500: that is
// what a kubelet does. The status is in the Result. As in a kubelet, too, no proxy
// is used, certificates are not verified, redirects are followed up to ten times
// and only to the same host, and an endpoint that answers https in plain HTTP is
// asked again without TLS and without the Authorization header.
package hook
