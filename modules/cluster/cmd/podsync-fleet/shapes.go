package main

import (
	"fmt"
	"maps"
	"os"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
)

// A shape describes a group of nodes.
type shape struct {
	// Count is the number of consecutive nodes with this shape. Default 1.
	Count int `json:"count"`
	// Zones are assigned to these nodes in turn.
	Zones    []string          `json:"zones"`
	Labels   map[string]string `json:"labels"`
	Taints   []v1.Taint        `json:"taints"`
	Capacity v1.ResourceList   `json:"capacity"` // cpu, memory, ephemeral-storage, and devices by their names
}

// shapes returns the fleet's nodes: it repeats the file's shapes.
func shapes(o options) ([]fleet.Spec, error) {
	all := []shape{{Count: 1}}
	if o.shapes != "" {
		text, err := os.ReadFile(o.shapes)
		if err != nil {
			return nil, err
		}
		all = nil
		if err := yaml.UnmarshalStrict(text, &all); err != nil {
			return nil, fmt.Errorf("--shapes: %s: %w", o.shapes, err)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("--shapes: %s has no shape", o.shapes)
		}
	}
	var specs []fleet.Spec
	for len(specs) < o.nodes {
		for _, s := range all {
			for range max(s.Count, 1) {
				if len(specs) < o.nodes {
					specs = append(specs, s.spec(len(specs), o.podsPerNode))
				}
			}
		}
	}
	return specs, nil
}

func (s shape) spec(n, pods int) fleet.Spec {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if len(s.Zones) > 0 {
		labels[v1.LabelTopologyZone] = s.Zones[n%len(s.Zones)]
	}
	capacity := v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI)}
	maps.Copy(capacity, s.Capacity)
	return fleet.Spec{Name: numbered(n), Labels: labels, Taints: s.Taints, Capacity: capacity}
}

// namePrefix is the prefix of the names of nodes, and of the pods of --pods.
const namePrefix = "fleet-"

// numbered returns the name of node or pod n.
func numbered(n int) string { return namePrefix + strconv.Itoa(n) }
