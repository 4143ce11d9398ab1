package node

import (
	"math"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The node's status has images as an API server accepts them, whatever the runtime lists.
func TestImagesOfAnyShape(t *testing.T) {
	list := []*runtimeapi.Image{nil, {RepoTags: []string{"a\x1b[2J", strings.Repeat("b", 1<<20)}, Size: math.MaxUint64}, {}}
	got := largest(list, 2)
	if len(got) != 2 || got[0].SizeBytes != math.MaxInt64 || got[0].Names[0] != `a\x1b[2J` || len(got[0].Names[1]) > 2<<10 {
		t.Errorf("%.200v", got)
	}
	if list[1].RepoTags[0] != "a\x1b[2J" {
		t.Error("the runtime's list has changed")
	}
}
