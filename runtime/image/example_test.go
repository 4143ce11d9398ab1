package image_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/podsync/podsync/runtime/image"
)

// The error of a step wraps the failed pull: errors.As finds it, with the time of the next pull.
func ExampleError() {
	var err error = fmt.Errorf("start web: %w", &image.Error{
		Reason: image.ErrImagePullBackOff, Image: "registry.test/web:1", RetryAt: time.Date(2026, 1, 1, 0, 0, 40, 0, time.UTC),
	})
	var failed *image.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Reason, failed.RetryAt.Format(time.TimeOnly))
	}
	fmt.Println(errors.Is(err, image.ErrImagePullBackOff), err)
	// Output:
	// ImagePullBackOff 00:00:40
	// true start web: Back-off pulling image "registry.test/web:1"
}
