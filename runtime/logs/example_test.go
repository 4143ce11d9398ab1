package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/logs"
)

func ExampleReader_Read() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "0.log")
	log := "2026-11-21T10:00:00.000000000Z stdout F starting\n" +
		"2026-11-21T10:00:01.000000000Z stderr P cannot open /etc/app\n" +
		"2026-11-21T10:00:01.000000000Z stderr F .conf\n" +
		"2026-11-21T10:00:02.000000000Z stdout F ready\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	var reader logs.Reader
	err = reader.Read(context.Background(), logs.Log{Path: path}, &v1.PodLogOptions{TailLines: new(int64(2))}, os.Stdout, os.Stdout)
	fmt.Println(err)
	// Output:
	// cannot open /etc/app.conf
	// ready
	// <nil>
}
