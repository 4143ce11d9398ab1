package lines_test

import (
	"fmt"

	"github.com/go-logr/logr/funcr"

	"github.com/podsync/podsync/runtime/foreign/lines"
)

func Example() {
	log := lines.Bound(funcr.New(func(_, line string) { fmt.Println(line) }, funcr.Options{}))
	log.Info("pull failed", "answer", "403\x1b[2J")
	// Output: "level"=0 "msg"="pull failed" "answer"="403\\x1b[2J"
}
