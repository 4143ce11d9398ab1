package main

import (
	"io"
	"os"
	"os/exec"
)

// busyArgument makes this program a busy process.
const busyArgument = "busy"

// busy starts processes that compute until stop is called or this process ends.
func busy(count int) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var ends []func()
	stop = func() {
		for _, end := range ends {
			end()
		}
	}
	for range count {
		c := exec.Command(self, busyArgument)
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		in, err := c.StdinPipe() // the kernel closes it with this process, however that ends
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			stop()
			return nil, err
		}
		ends = append(ends, func() {
			_ = in.Close()
			_ = c.Wait() // it has no result
		})
	}
	return stop, nil
}

// spin computes until in ends.
func spin(in io.Reader) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // an error is an end, too
	}()
	for n := 0; ; n++ {
		if n%1000 == 0 {
			select {
			case <-ended:
				return
			default:
			}
		}
	}
}
