//go:build !linux

package main

import "errors"

var errNotLinux = errors.New("what a process uses is measured on Linux only")

func done() (work, error) { return work{}, errNotLinux }

func resident() (int64, error) { return 0, errNotLinux }
