package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// envCase is a random container, and its environment by kubelet v1.36.2, unordered, or the
// fact that the kubelet returned an error. It is also the source of the objects that the environment refers to.
type envCase struct {
	Name                   string
	Pod                    *v1.Pod
	PodIPs, HostIPs        []string
	ConfigMapData          map[string]map[string]string `json:"configMaps"`
	SecretData             map[string]map[string]string `json:"secrets"`
	ServiceData            []envService                 `json:"services"`
	MasterServiceNamespace string
	NodeAllocatable        v1.ResourceList

	Want      map[string]string
	WantError bool
}

type envService struct {
	Name, Namespace, ClusterIP string
	Port                       int32
	PortName                   string
	Protocol                   v1.Protocol
}

// checkEnv compares one recorded line of environments with what podsync makes of
// the same input.
func checkEnv(line []byte) (outcome, error) {
	var c envCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("env: %w", err)
	}
	if c.Pod == nil || c.Name == "" || len(c.Pod.Spec.Containers) != 1 {
		return outcome{}, errors.New("env: the line has no name or no pod of one container")
	}
	vars, err := c.resolve()
	if err != nil || c.WantError {
		return outcome{name: c.Name, diff: compareErrors(err, c.WantError)}, nil
	}
	return outcome{name: c.Name, diff: sideBySide(compareTrees("", anyMap(c.Want), byName(vars)))}, nil
}

func (c *envCase) resolve() ([]env.Var, error) {
	return env.MakeEnvironment(context.Background(), env.Input{
		Pod:             c.Pod,
		Container:       c.Pod.Spec.Containers[0].Name,
		PodIPs:          c.PodIPs,
		HostIPs:         c.HostIPs,
		Allocatable:     c.NodeAllocatable,
		MasterNamespace: c.MasterServiceNamespace,
	}, env.Sources{ConfigMaps: c, Secrets: c, Services: c})
}

// byName returns the variables as JSON values. A duplicate variable shows up as
// a difference, because Resolve promises unique names.
func byName(vars []env.Var) map[string]any {
	m := make(map[string]any, len(vars))
	for _, v := range vars {
		if _, again := m[v.Name]; again {
			m[v.Name] = "listed twice"
			continue
		}
		m[v.Name] = v.Value
	}
	return m
}

func anyMap(values map[string]string) map[string]any {
	m := make(map[string]any, len(values))
	for name, value := range values {
		m[name] = value
	}
	return m
}

func (c *envCase) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	data, ok := c.ConfigMapData[name]
	if !ok || namespace != c.Pod.Namespace {
		return nil, env.ErrNotFound
	}
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}, nil
}

func (c *envCase) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	data, ok := c.SecretData[name]
	if !ok || namespace != c.Pod.Namespace {
		return nil, env.ErrNotFound
	}
	s := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s, nil
}

func (c *envCase) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	var list []*v1.Service
	for _, s := range c.ServiceData {
		if s.Namespace == namespace {
			list = append(list, s.service())
		}
	}
	return list, nil
}

func (s *envService) service() *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
		Spec: v1.ServiceSpec{
			ClusterIP: s.ClusterIP,
			Ports:     []v1.ServicePort{{Name: s.PortName, Port: s.Port, Protocol: s.Protocol}},
		},
	}
}
