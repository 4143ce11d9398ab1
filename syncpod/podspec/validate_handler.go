package podspec

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCount bounds the counts and seconds of probes.
const maxCount = math.MaxInt32

func (v *validator) probes(m *member) {
	v.probe(m, "livenessProbe", m.LivenessProbe)
	v.probe(m, "readinessProbe", m.ReadinessProbe)
	v.probe(m, "startupProbe", m.StartupProbe)
}

func (v *validator) probe(m *member, name string, p *v1.Probe) {
	if p == nil {
		return
	}
	at := m.path.Child(name)
	if m.kind == initial && !m.sidecar() {
		v.add(field.Forbidden(at, "must not be set for an init container without restartPolicy Always"))
	}
	v.exactlyOne(at, p.ProbeHandler)
	v.exec(at.Child("exec"), p.Exec)
	v.httpGet(at.Child("httpGet"), p.HTTPGet)
	v.tcpSocket(at.Child("tcpSocket"), p.TCPSocket)
	if p.GRPC != nil {
		v.invalid(at.Child("grpc", "port"), p.GRPC.Port, validation.IsValidPortNum(int(p.GRPC.Port))...)
	}
	v.add(inRange(at.Child("initialDelaySeconds"), &p.InitialDelaySeconds, 0, maxCount)...)
	v.add(inRange(at.Child("timeoutSeconds"), &p.TimeoutSeconds, 1, maxCount)...)
	v.add(inRange(at.Child("periodSeconds"), &p.PeriodSeconds, 1, maxCount)...)
	v.add(inRange(at.Child("successThreshold"), &p.SuccessThreshold, 1, maxCount)...)
	v.add(inRange(at.Child("failureThreshold"), &p.FailureThreshold, 1, maxCount)...)
	v.add(inRange(at.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, 1, maxSeconds)...)
	switch {
	case p != m.ReadinessProbe && p.SuccessThreshold > 1:
		v.invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")
	case p == m.ReadinessProbe && p.TerminationGracePeriodSeconds != nil:
		v.add(field.Forbidden(at.Child("terminationGracePeriodSeconds"), "must not be set for a readinessProbe"))
	}
}

func (v *validator) lifecycle(m *member, grace *int64) {
	if m.Lifecycle == nil {
		return
	}
	at := m.path.Child("lifecycle")
	if m.kind == initial && !m.sidecar() {
		v.add(field.Forbidden(at, "must not be set for an init container without restartPolicy Always"))
	}
	v.handler(at.Child("postStart"), m.Lifecycle.PostStart, grace)
	v.handler(at.Child("preStop"), m.Lifecycle.PreStop, grace)
}

func (v *validator) handler(at *field.Path, h *v1.LifecycleHandler, grace *int64) {
	if h == nil {
		return
	}
	v.exactlyOne(at, *h)
	v.exec(at.Child("exec"), h.Exec)
	v.httpGet(at.Child("httpGet"), h.HTTPGet)
	v.tcpSocket(at.Child("tcpSocket"), h.TCPSocket)
	if h.Sleep != nil && grace != nil && (h.Sleep.Seconds < 0 || h.Sleep.Seconds > *grace) {
		v.invalid(at.Child("sleep", "seconds"), h.Sleep.Seconds, fmt.Sprintf("must be from 0 to the terminationGracePeriodSeconds, %d", *grace))
	}
}

func (v *validator) exec(at *field.Path, e *v1.ExecAction) {
	if e != nil && len(e.Command) == 0 {
		v.add(field.Required(at.Child("command"), ""))
	}
}

func (v *validator) httpGet(at *field.Path, get *v1.HTTPGetAction) {
	if get == nil {
		return
	}
	v.text(at.Child("path"), get.Path, present)
	v.port(at.Child("port"), get.Port)
	oneOf(v, at.Child("scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	for i, h := range get.HTTPHeaders {
		v.text(at.Child("httpHeaders").Index(i).Child("name"), h.Name, validation.IsHTTPHeaderName)
	}
}

func (v *validator) tcpSocket(at *field.Path, s *v1.TCPSocketAction) {
	if s != nil {
		v.port(at.Child("port"), s.Port)
	}
}

// port checks a number, or a port's name.
func (v *validator) port(at *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.Int {
		v.invalid(at, port.IntVal, validation.IsValidPortNum(int(port.IntVal))...)
		return
	}
	v.text(at, port.StrVal, validation.IsValidPortName)
}
