//go:build !linux

package csi

import (
	"context"
	"errors"
)

func bind(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func setOwnership(context.Context, string, int, bool) error { return errors.ErrUnsupported }
