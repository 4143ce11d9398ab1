//go:build !linux

package main

import (
	"errors"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// protect rejects settings that only Linux supports.
func protect(k *kubelet.KubeletConfiguration) error {
	if k.MaxOpenFiles > 0 || k.OOMScoreAdj != nil {
		return errors.New("maxOpenFiles and oomScoreAdj can be set only on Linux")
	}
	return nil
}
