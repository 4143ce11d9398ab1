package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podsync/podsync/syncpod/topology"
)

func TestReadDistances(t *testing.T) {
	for text, want := range map[string]string{
		"10 21\n":                 "10 21 <nil>",
		"10\n":                    "has 1 distances for 2 nodes",
		"10 x\n":                  "not a distance",
		strings.Repeat(" ", 5000): "longer than",
	} {
		files := fstest.MapFS{}
		for _, node := range []int{0, 2} {
			files[fmt.Sprintf("devices/system/node/node%d/distance", node)] = &fstest.MapFile{Data: []byte(text)}
		}
		all, err := topology.ReadDistances(files, 0b101)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(all[2][0], all[2][2], err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.20q: %s, want %s", text, got, want)
		}
	}
	if _, err := topology.ReadDistances(fstest.MapFS{}, 1); err == nil {
		t.Error("a missing file is no error")
	}
}
