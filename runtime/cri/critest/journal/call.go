package journal

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Method is the short name of a CRI call, such as RunPodSandbox. Package critest has a constant
// for each.
type Method string

const (
	runPodSandbox Method = "RunPodSandbox"
	pullImage     Method = "PullImage"
)

// changing lists the methods that change the runtime's state.
var changing = []Method{
	"UpdateRuntimeConfig", runPodSandbox, "StopPodSandbox", "RemovePodSandbox", "UpdatePodSandboxResources",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "UpdateContainerResources",
	"ReopenContainerLog", "ExecSync", pullImage, "RemoveImage",
}

func (m Method) changes() bool { return slices.Contains(changing, m) }

// Call is one CRI call that the runtime received.
//
// It is safe to print: no form of it shows credentials, environments, commands or output. Request
// and Response return the messages themselves, without registry credentials.
type Call struct {
	N      int // the number in order of arrival, from 1
	Method Method
	// The pod and container of the call, if the request names them or has a known ID.
	Namespace, Pod, PodUID string
	SandboxID              string
	Container              string // name
	ContainerID            string
	Attempt                uint32 // of the container, or else of the sandbox
	Image                  string // as requested
	// Caller is the user agent of the connection, which distinguishes the agents on one runtime. Set
	// it with grpc.WithUserAgent; gRPC appends its own name.
	Caller     string
	Start, End time.Time // End is zero while the call runs
	Err        error     // the response, a status error. A call that its caller has cancelled may have had its effect
	Fault      string    // the injected fault in words, "" for none

	request, response proto.Message
	auth              [sha256.Size]byte
}

// Done reports whether the call has ended.
func (c Call) Done() bool { return !c.End.IsZero() }

// Duration returns the time from start to end, 0 while the call runs.
func (c Call) Duration() time.Duration {
	if !c.Done() {
		return 0
	}
	return c.End.Sub(c.Start)
}

// Request returns a copy of the request, without registry credentials. The caller owns it.
func (c Call) Request() proto.Message { return proto.Clone(c.request) }

// Response returns a copy of the response, nil for an error. The caller owns it.
func (c Call) Response() proto.Message {
	if c.response == nil {
		return nil
	}
	return proto.Clone(c.response)
}

// SetRequest stores a copy of the request, without registry credentials. The runtime calls it.
func (c *Call) SetRequest(req proto.Message) {
	c.request = proto.Clone(req)
	if q, ok := c.request.(*runtimeapi.PullImageRequest); ok {
		c.auth = fingerprint(q.GetAuth())
		mask(q.GetAuth())
	}
}

// SetResponse stores a copy of the response, and the ID in it. The runtime calls it.
func (c *Call) SetResponse(resp proto.Message) {
	c.response = proto.Clone(resp)
	switch a := resp.(type) {
	case *runtimeapi.RunPodSandboxResponse:
		c.SandboxID = a.GetPodSandboxId()
	case *runtimeapi.CreateContainerResponse:
		c.ContainerID = a.GetContainerId()
	}
}

// AuthIs reports whether the call is a PullImage with exactly these credentials.
func (c Call) AuthIs(a *runtimeapi.AuthConfig) bool {
	return c.Method == pullImage && c.auth == fingerprint(a)
}

func fingerprint(a *runtimeapi.AuthConfig) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q",
		a.GetUsername(), a.GetPassword(), a.GetAuth(), a.GetIdentityToken(), a.GetRegistryToken()))
}

// Subject returns the method and its object, without IDs, so that it is the same in every run.
// Examples: "RunPodSandbox default/web attempt 0", "StartContainer default/web app attempt 2",
// "PullImage nginx:1".
func (c Call) Subject() string {
	parts := []string{string(c.Method)}
	if c.Pod != "" {
		parts = append(parts, c.Namespace+"/"+c.Pod)
	}
	if c.Container != "" {
		parts = append(parts, c.Container)
	}
	if c.Pod != "" && (c.Container != "" || c.SandboxID != "" || c.Method == runPodSandbox) {
		parts = append(parts, fmt.Sprintf("attempt %d", c.Attempt))
	}
	if c.Image != "" && c.Container == "" {
		parts = append(parts, c.Image)
	}
	return strings.Join(parts, " ")
}

// String returns one line: number, subject, duration, outcome and fault.
func (c Call) String() string {
	outcome := "OK"
	switch {
	case !c.Done():
		outcome = "running"
	case c.Err != nil:
		outcome = status.Code(c.Err).String()
	}
	s := fmt.Sprintf("%d %s %v %s", c.N, c.Subject(), c.Duration(), outcome)
	if c.Fault != "" {
		s += " (" + c.Fault + ")"
	}
	return s
}

// Format prints String for every verb, so that no other part of the call is printed.
func (c Call) Format(w fmt.State, _ rune) { fmt.Fprint(w, c.String()) }

const masked = "***"

// mask removes credentials from a message. It modifies the message.
func mask(a *runtimeapi.AuthConfig) {
	if a == nil {
		return
	}
	for _, s := range []*string{&a.Username, &a.Password, &a.Auth, &a.IdentityToken, &a.RegistryToken} {
		if *s != "" {
			*s = masked
		}
	}
}
