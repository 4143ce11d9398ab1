package env_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

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
