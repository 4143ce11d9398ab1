//go:build !linux

package main

import (
	"errors"
	"time"
)

var errNotLinux = errors.New("what a process uses is measured on Linux only")

func cpu() (time.Duration, error) { return 0, errNotLinux }

func resident() (int64, error) { return 0, errNotLinux }
