package credentialprovider_test

import (
	"fmt"

	"github.com/podsync/podsync/syncpod/credentialprovider"
)

func Example() {
	_, err := credentialprovider.New(credentialprovider.Config{File: "/etc/my-agent/providers.yaml", BinDir: "plugins"})
	fmt.Println(err)
	// Output: credentialprovider: Config.BinDir is "plugins", want an absolute path
}
