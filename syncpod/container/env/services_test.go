package env_test

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container/env"
)

func service(name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func port(name string, number int32) v1.ServicePort { return v1.ServicePort{Name: name, Port: number} }

// serviceVars returns the variables of a pod in the namespace that come from services.
func serviceVars(t *testing.T, w *world, namespace string, links *bool) []string {
	t.Helper()
	p := pod(v1.Container{})
	p.Namespace, p.Spec.EnableServiceLinks = namespace, links
	vars := must.Get(env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c"}, w.sources()))(t)
	return values(vars)
}

func TestVariablesOfOneService(t *testing.T) {
	udp := port("dns-udp", 53)
	udp.Protocol = v1.ProtocolUDP
	w := &world{services: map[string][]*v1.Service{"ns": {service("my-svc", "fd00::1", port("web", 80), udp)}}}
	want := []string{
		"MY_SVC_SERVICE_HOST=fd00::1", "MY_SVC_SERVICE_PORT=80", "MY_SVC_SERVICE_PORT_WEB=80", "MY_SVC_SERVICE_PORT_DNS_UDP=53",
		"MY_SVC_PORT=tcp://[fd00::1]:80", "MY_SVC_PORT_80_TCP=tcp://[fd00::1]:80",
		"MY_SVC_PORT_80_TCP_PROTO=tcp", "MY_SVC_PORT_80_TCP_PORT=80", "MY_SVC_PORT_80_TCP_ADDR=fd00::1",
		"MY_SVC_PORT_53_UDP=udp://[fd00::1]:53",
		"MY_SVC_PORT_53_UDP_PROTO=udp", "MY_SVC_PORT_53_UDP_PORT=53", "MY_SVC_PORT_53_UDP_ADDR=fd00::1",
	}
	if got := serviceVars(t, w, "ns", nil); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestServicesInTheEnvironmentOfAPod(t *testing.T) {
	w := &world{services: map[string][]*v1.Service{
		"default": {service("kubernetes", "10.0.0.1"), service("elsewhere", "10.0.0.2")},
		"ns":      {service("zeta", "10.0.0.3"), service("alpha", "10.0.0.4"), service("headless", "None"), service("pending", ""), nil},
		"own":     {service("kubernetes", "10.0.0.5")},
	}}
	for name, tc := range map[string]struct {
		namespace string
		links     *bool
		want      []string
	}{
		"no links: the API alone": {"ns", ptr(false), []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}},
		"links: the namespace":    {"ns", ptr(true), []string{"ALPHA_SERVICE_HOST=10.0.0.4", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ZETA_SERVICE_HOST=10.0.0.3"}},
		"links are the default":   {"ns", nil, []string{"ALPHA_SERVICE_HOST=10.0.0.4", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ZETA_SERVICE_HOST=10.0.0.3"}},
		"the API's own namespace": {"default", nil, []string{"ELSEWHERE_SERVICE_HOST=10.0.0.2", "KUBERNETES_SERVICE_HOST=10.0.0.1"}},
		"a service of that name":  {"own", nil, []string{"KUBERNETES_SERVICE_HOST=10.0.0.5"}},
		"of that name, no links":  {"own", ptr(false), []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}},
	} {
		if got := serviceVars(t, w, tc.namespace, tc.links); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestMasterNamespace(t *testing.T) {
	w := &world{services: map[string][]*v1.Service{"system": {service("kubernetes", "10.9.9.9")}}}
	vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: pod(v1.Container{}), Container: "c", MasterNamespace: "system"}, w.sources())
	if err != nil || !slices.Equal(values(vars), []string{"KUBERNETES_SERVICE_HOST=10.9.9.9"}) {
		t.Errorf("%q, error %v; want the service of the namespace given", values(vars), err)
	}
}

// E5: a static pod may itself be the API server that provides services. So it does not fail without them, as other pods
// do, and gets the variables of the known services.
func TestE5_StaticPodDoesNotNeedServices(t *testing.T) {
	w := &world{services: map[string][]*v1.Service{"default": {service("kubernetes", "10.0.0.1")}}}
	p := pod(v1.Container{Env: []v1.EnvVar{{Name: "A", Value: "b"}}})
	resolve := func() ([]string, error) {
		vars, err := env.MakeEnvironment(t.Context(), env.Input{Pod: p, Container: "c"}, w.sources())
		return values(vars), err
	}
	w.fail = errors.New("services are not known yet")
	if _, err := resolve(); !errors.Is(err, w.fail) {
		t.Errorf("a pod of the API server: error %v, want that of the source", err)
	}
	p.Annotations = map[string]string{runtime.AnnotationConfigSource: runtime.ConfigSourceFile}
	if got, err := resolve(); err != nil || !slices.Equal(got, []string{"A=b"}) {
		t.Errorf("a static pod: %q, error %v; want it without services", got, err)
	}
	w.fail = nil
	if got, err := resolve(); err != nil || !slices.Equal(got, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "A=b"}) {
		t.Errorf("a static pod: %q, error %v; want the known Services", got, err)
	}
}

// FromServices has the variables that MakeEnvironment sets, without a pod.
func TestFromServices(t *testing.T) {
	services := []*v1.Service{service("web", "10.0.0.1", port("http", 80)), service("headless", v1.ClusterIPNone, port("x", 1)), service("new", ""), nil, service("db", "10.0.0.2")}
	w := &world{services: map[string][]*v1.Service{"ns": {services[0]}}}
	want := append(serviceVars(t, w, "ns", nil), "DB_SERVICE_HOST=10.0.0.2")
	if got := values(env.FromServices(services)); len(got) < 5 || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
