package foreign_test

import (
	"errors"
	"fmt"

	"github.com/podsync/podsync/runtime/foreign"
)

func Example() {
	fromRegistry := errors.New("403 Forbidden\x1b[2J\npod default/web is healthy")
	fmt.Println(fmt.Errorf("pull: %w", foreign.Error(fromRegistry)))
	// Output: pull: 403 Forbidden\x1b[2J\npod default/web is healthy
}
