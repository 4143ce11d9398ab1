package main

import (
	"flag"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime/logs"
)

// A rotation holds the flags of log rotation. Zero fields mean a kubelet's defaults.
type rotation struct {
	maxSize  string
	maxFiles int
}

func (r *rotation) flags(flags *flag.FlagSet) {
	flags.StringVar(&r.maxSize, "container-log-max-size", "", "`size`, such as 10Mi, at which the log of a container is rotated and compressed, as by a kubelet "+
		"(default 10Mi)")
	flags.IntVar(&r.maxFiles, "container-log-max-files", 0, "maximum `number` of log files of a container, including the current one (default 5)")
}

// policy returns the flags' policy. A zero field is a kubelet's default.
func (r rotation) policy() (logs.RotationPolicy, error) {
	p := logs.RotationPolicy{MaxFiles: r.maxFiles}
	if r.maxSize != "" {
		size, err := resource.ParseQuantity(r.maxSize)
		if err != nil || size.Value() <= 0 {
			return p, fmt.Errorf("-container-log-max-size %s: want a size above 0, such as 10Mi", r.maxSize)
		}
		p.MaxSize = size.Value()
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("-container-log-max-files %d: want 2 files or more", r.maxFiles)
	}
	return p, nil
}
