package critest

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func ready() []*runtimeapi.RuntimeCondition {
	return []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}
}

// setCondition changes a condition in Status: RuntimeReady, NetworkReady or a custom one. Nil
// changes nothing.
func (r *Runtime) setCondition(c *runtimeapi.RuntimeCondition) {
	if c == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c = proto.CloneOf(c)
	for i, old := range r.conditions {
		if old.GetType() == c.GetType() {
			r.conditions[i] = c
			return
		}
	}
	r.conditions = append(r.conditions, c)
}

// Version returns v1, whichever version was requested.
func (s service) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: s.cfg.Name, RuntimeVersion: s.cfg.version, RuntimeApiVersion: "v1",
	}, nil
}

// Status returns the conditions and the handlers. The handler "" comes first and supports recursive
// read-only mounts.
func (s service) Status(_ context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{}, Features: &runtimeapi.RuntimeFeatures{}}
	for _, c := range s.conditions {
		resp.Status.Conditions = append(resp.Status.Conditions, proto.CloneOf(c))
	}
	for _, h := range append([]string{""}, s.cfg.Handlers...) {
		resp.RuntimeHandlers = append(resp.RuntimeHandlers, &runtimeapi.RuntimeHandler{Name: h, Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: h == "", UserNamespaces: h == ""}})
	}
	if req.GetVerbose() {
		resp.Info = map[string]string{"config": "{}"}
	}
	return resp, nil
}

// RuntimeConfig returns the cgroup driver.
func (s service) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: s.cfg.cgroupDriver}}, nil
}

// UpdateRuntimeConfig changes nothing: addresses come from the runtime's own prefixes, as with a network
// plugin.
func (s service) UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}
