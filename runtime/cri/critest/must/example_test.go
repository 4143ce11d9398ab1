package must_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func Example() {
	t := new(testing.T) // the parameter of a test
	port := must.Get(strconv.Atoi("8080"))(t)
	must.Do(t, context.Background().Err())
	fmt.Println(port)
	// Output: 8080
}
