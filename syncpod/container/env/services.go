package env

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// The service whose variables every pod gets whatever its spec, because clients in the cluster use
// it to find the API, and its default namespace.
const (
	masterService          = "kubernetes"
	defaultMasterNamespace = "default"
)

// services sets service variables: for the API's service, and, unless spec.enableServiceLinks is
// false, for all services in the pod's namespace. A static pod does not wait for the services:
// the pod may be the API server that serves them.
func (r *resolver) services(ctx context.Context) error {
	if r.from.Services == nil {
		return nil
	}
	byName, err := r.visible(ctx)
	if err != nil {
		if runtime.IsStatic(r.in.Pod) && ctx.Err() == nil {
			return nil
		}
		return err
	}
	for _, s := range sortedByName(byName) {
		if err := r.service(s); err != nil {
			return err
		}
	}
	return nil
}

// visible returns the services whose variables the pod gets.
func (r *resolver) visible(ctx context.Context) (map[string]*v1.Service, error) {
	namespace := cmp.Or(r.in.MasterNamespace, defaultMasterNamespace)
	masters, err := r.list(ctx, namespace)
	if err != nil {
		return nil, err
	}
	byName := map[string]*v1.Service{}
	add(byName, masters, func(name string) bool { return name == masterService })
	if links := r.in.Pod.Spec.EnableServiceLinks; links == nil || *links {
		local := masters
		if r.in.Pod.Namespace != namespace {
			if local, err = r.list(ctx, r.in.Pod.Namespace); err != nil {
				return nil, err
			}
		}
		add(byName, local, func(string) bool { return true })
	}
	return byName, nil
}

func (r *resolver) list(ctx context.Context, namespace string) ([]*v1.Service, error) {
	list, err := r.from.Services.Services(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("services of namespace %q: %w", namespace, err)
	}
	return list, nil
}

// hasAddress reports whether a service has a cluster IP. Headless services have none, and new services may not have one yet.
func hasAddress(s *v1.Service) bool {
	return s != nil && s.Spec.ClusterIP != "" && s.Spec.ClusterIP != v1.ClusterIPNone
}

// add adds the services that have a cluster IP.
func add(to map[string]*v1.Service, list []*v1.Service, wanted func(name string) bool) {
	for _, s := range list {
		if hasAddress(s) && wanted(s.Name) {
			to[s.Name] = s
		}
	}
}

func sortedByName(services map[string]*v1.Service) []*v1.Service {
	list := make([]*v1.Service, 0, len(services))
	for _, s := range services {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *v1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// service sets one service's variables.
func (r *resolver) service(s *v1.Service) error {
	for _, v := range variables(s) {
		if err := r.vars.setNamed(v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// FromServices returns service variables, in the services' order, as a kubelet's envvars.FromServices does. A service
// without a cluster IP has none. The caller selects the services that a pod gets: those in its namespace, and the service
// "kubernetes" in the namespace "default"; [MakeEnvironment] selects them itself. It does not limit their bytes.
func FromServices(services []*v1.Service) []Var {
	var vars []Var
	for _, s := range services {
		if hasAddress(s) {
			vars = append(vars, variables(s)...)
		}
	}
	return vars
}

// variables returns one service's variables: its first port's address, each named port's number, and all ports as
// Docker's links do.
func variables(s *v1.Service) []Var {
	prefix := variable(s.Name)
	vars := []Var{{prefix + "_SERVICE_HOST", s.Spec.ClusterIP}}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		number := strconv.Itoa(int(port.Port))
		if i == 0 {
			vars = append(vars, Var{prefix + "_SERVICE_PORT", number})
		}
		if port.Name != "" {
			vars = append(vars, Var{prefix + "_SERVICE_PORT_" + variable(port.Name), number})
		}
	}
	for i := range s.Spec.Ports {
		vars = append(vars, links(prefix, s.Spec.ClusterIP, &s.Spec.Ports[i], i == 0)...)
	}
	return vars
}

func links(prefix, ip string, port *v1.ServicePort, first bool) (vars []Var) {
	protocol := string(cmp.Or(port.Protocol, v1.ProtocolTCP))
	number := strconv.Itoa(int(port.Port))
	url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
	if first {
		vars = append(vars, Var{prefix + "_PORT", url})
	}
	name := prefix + "_PORT_" + number + "_" + strings.ToUpper(protocol)
	return append(vars, Var{name, url}, Var{name + "_PROTO", strings.ToLower(protocol)}, Var{name + "_PORT", number}, Var{name + "_ADDR", ip})
}

// variable converts a service's or port's name for use in a variable's name.
func variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
