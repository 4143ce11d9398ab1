package localvolume

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// emptyDirMode allows processes of any user to use the volume.
const emptyDirMode = 0o777

// emptyDir creates the directory if it does not exist. Files and changes of containers are kept.
func (v *Volumes) emptyDir(source *v1.EmptyDirVolumeSource, path string, pod *v1.Pod) error {
	o, err := v.ownersOf(pod)
	if err != nil {
		return err
	}
	dir := directory{path, o.dir(emptyDirMode)}
	switch source.Medium {
	case v1.StorageMediumDefault:
		return dir.make()
	case v1.StorageMediumMemory:
	default:
		return fmt.Errorf("emptyDir.medium %q is not supported", source.Medium)
	}
	if v.config.Unprivileged {
		return fmt.Errorf("emptyDir.medium %s needs the right to mount, and the agent does without it", source.Medium)
	}
	var size int64
	if source.SizeLimit != nil {
		size = source.SizeLimit.Value()
	}
	return dir.makeInMemory(size)
}
