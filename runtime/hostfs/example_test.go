package hostfs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/runtime/hostfs"
)

// A container may write any number of bytes. The agent reads no more than its limit.
func ExampleReadPath() {
	dir, err := os.MkdirTemp("", "hostfs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "message")
	if err := hostfs.Replace(path, []byte("out of memory"), false); err != nil {
		fmt.Println(err)
	}
	text, err := hostfs.ReadPath(path, 4096)
	fmt.Printf("%s %v\n", text, err)
	_, err = hostfs.ReadPath(path, 5)
	fmt.Println(errors.Is(err, hostfs.ErrTooLarge))
	// Output:
	// out of memory <nil>
	// true
}

// A name from a pod's spec must not lead out of the pod's directory.
func ExampleElement() {
	fmt.Println(hostfs.Element("spec.volumes[0].name", "../../etc"))
	// Output: spec.volumes[0].name "../../etc" contains a path separator or NUL
}
