package env_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

func ExampleMakeEnvironment() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "nginx",
			EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}},
			Env: []v1.EnvVar{
				{Name: "POD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "GREETING", Value: "$(HELLO), $(POD), and $$(HELLO)"},
			},
		}}},
	}
	settings := env.ConfigMapsFunc(func(context.Context, string, string) (*v1.ConfigMap, error) {
		return &v1.ConfigMap{Data: map[string]string{"HELLO": "hi"}}, nil
	})
	vars, err := env.MakeEnvironment(context.Background(), env.Input{Pod: pod, Container: "nginx"}, env.Sources{ConfigMaps: settings})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range vars {
		fmt.Println(v.Name, "=", v.Value)
	}
	// Output:
	// HELLO = hi
	// POD = web-0
	// GREETING = hi, web-0, and $(HELLO)
}
