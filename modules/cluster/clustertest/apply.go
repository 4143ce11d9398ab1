package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply applies the manifests in files, as kubectl apply does. Objects without a namespace go to the namespace default.
func (c *Cluster) Apply(t testing.TB, files ...string) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			err = c.apply(t.Context(), text)
		}
		if err != nil {
			t.Fatalf("apply %s: %v", name, err)
		}
	}
}

// ApplyYAML applies manifests.
func (c *Cluster) ApplyYAML(t testing.TB, manifests string) {
	t.Helper()
	if err := c.apply(t.Context(), []byte(manifests)); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func (c *Cluster) apply(ctx context.Context, text []byte) error {
	kinds, err := discovery.NewDiscoveryClientForConfig(c.rest)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(o.Object) == 0 {
			continue // an empty document
		}
		if err := applyOne(ctx, client, mapper, &o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func applyOne(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var objects dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			o.SetNamespace(metav1.NamespaceDefault)
		}
		objects = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = objects.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "clustertest", Force: true})
	return err
}
