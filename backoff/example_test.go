package backoff_test

import (
	"fmt"
	"time"

	"github.com/podsync/podsync/backoff"
)

// A container crashes one second after each start.
func Example() {
	type key struct{ pod, container string }
	b, err := backoff.New(backoff.Config[key]{})
	if err != nil {
		panic(err)
	}
	app := key{"shop-0", "app"}

	started := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for range 4 {
		crashed := started.Add(time.Second)
		started = b.Advance(app, crashed, crashed)
		fmt.Println("crashed at", crashed.Format(time.TimeOnly), "and starts again at", started.Format(time.TimeOnly))
	}
	// Output:
	// crashed at 12:00:01 and starts again at 12:00:01
	// crashed at 12:00:02 and starts again at 12:00:12
	// crashed at 12:00:13 and starts again at 12:00:33
	// crashed at 12:00:34 and starts again at 12:01:14
}
