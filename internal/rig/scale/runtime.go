package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// serve runs the runtime in memory until ctx ends. It reports when the runtime listens.
func serve(ctx context.Context, t task, reports *json.Encoder) error {
	r, err := critest.New(critest.Config{JournalLimit: 1})
	if err != nil {
		return err
	}
	if _, err := r.Listen(t.socket()); err != nil {
		return errors.Join(err, r.Close())
	}
	if err := reports.Encode(struct{}{}); err != nil {
		return errors.Join(err, r.Close())
	}
	<-ctx.Done()
	return r.Close()
}
