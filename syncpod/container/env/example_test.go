package env_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/container/env"
)

// The variables of a service, without a pod.
func ExampleFromServices() {
	db := &v1.Service{Spec: v1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []v1.ServicePort{{Port: 5432}}}}
	db.Name = "db"
	for _, v := range env.FromServices([]*v1.Service{db})[:2] {
		fmt.Println(v.Name, v.Value)
	}
	// Output:
	// DB_SERVICE_HOST 10.96.0.7
	// DB_SERVICE_PORT 5432
}

// A field and a resource of a pod, for other uses than variables.
func ExampleFieldValue() {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
	}}}}}
	pod.Labels = map[string]string{"tier": "web"}
	in := env.Input{Pod: pod, Container: "app"}
	fmt.Println(env.FieldValue(in, &v1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}))
	fmt.Println(env.ResourceValue(in, &v1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}))
	// Output:
	// web <nil>
	// 64 <nil>
}

// A source with one ConfigMap.
func ExampleConfigMapsFunc() {
	sources := env.Sources{ConfigMaps: env.ConfigMapsFunc(func(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
		if namespace != "shop" || name != "settings" {
			return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, env.ErrNotFound)
		}
		return &v1.ConfigMap{Data: map[string]string{"HELLO": "hi"}}, nil
	})}
	settings, err := sources.ConfigMaps.ConfigMap(context.Background(), "shop", "settings")
	fmt.Println(settings.Data["HELLO"], err)
	_, err = sources.ConfigMaps.ConfigMap(context.Background(), "shop", "other")
	fmt.Println(env.NotFound(err))
	// Output:
	// hi <nil>
	// true
}
