// Package volumedir names the directories of volumes as a kubelet does:
// volumes/<directory of the kind>/<name> below the directory of the pod.
package volumedir

import v1 "k8s.io/api/core/v1"

// The directories of the kinds of volumes that the agent makes.
const (
	EmptyDir    = "kubernetes.io~empty-dir"
	ConfigMap   = "kubernetes.io~configmap"
	Secret      = "kubernetes.io~secret"
	DownwardAPI = "kubernetes.io~downward-api"
	Projected   = "kubernetes.io~projected"
)

// All returns the directories of all kinds.
func All() []string { return []string{EmptyDir, ConfigMap, Secret, DownwardAPI, Projected} }

// Of returns the directory of the volume's kind, or "" for a kind that the agent does not make.
func Of(vol *v1.Volume) string {
	switch {
	case vol.EmptyDir != nil:
		return EmptyDir
	case vol.ConfigMap != nil:
		return ConfigMap
	case vol.Secret != nil:
		return Secret
	case vol.DownwardAPI != nil:
		return DownwardAPI
	case vol.Projected != nil:
		return Projected
	}
	return ""
}
