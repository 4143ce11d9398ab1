package objects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podspec"
)

// references returns the ConfigMaps and Secrets that the pods name.
func references(pods []*v1.Pod) (configMaps, secrets map[key]bool) {
	configMaps, secrets = map[key]bool{}, map[key]bool{}
	for _, pod := range pods {
		c, s := podspec.References(pod)
		for _, name := range c {
			configMaps[key{Namespace: pod.Namespace, Name: name}] = true
		}
		for _, name := range s {
			secrets[key{Namespace: pod.Namespace, Name: name}] = true
		}
	}
	return configMaps, secrets
}
