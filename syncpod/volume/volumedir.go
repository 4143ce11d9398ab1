package volume

import v1 "k8s.io/api/core/v1"

// The directories of the kinds of volumes that the agent makes.
const (
	DirEmptyDir    = "kubernetes.io~empty-dir"
	DirConfigMap   = "kubernetes.io~configmap"
	DirSecret      = "kubernetes.io~secret"
	DirDownwardAPI = "kubernetes.io~downward-api"
	DirProjected   = "kubernetes.io~projected"
)

// Directories returns the directories of all kinds.
func Directories() []string {
	return []string{DirEmptyDir, DirConfigMap, DirSecret, DirDownwardAPI, DirProjected}
}

// Directory returns the directory of the volume's kind, or "" for nil and for a kind that the agent does not make.
func Directory(vol *v1.Volume) string {
	switch {
	case vol == nil:
	case vol.EmptyDir != nil:
		return DirEmptyDir
	case vol.ConfigMap != nil:
		return DirConfigMap
	case vol.Secret != nil:
		return DirSecret
	case vol.DownwardAPI != nil:
		return DirDownwardAPI
	case vol.Projected != nil:
		return DirProjected
	}
	return ""
}
