package runtime

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/dump"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Values that a kubelet wrote into io.kubernetes.container.hash. They must never change: a different
// value would restart every container on every node.
func TestHashContainerEqualsTheKubelets(t *testing.T) {
	for name, want := range map[string]string{"c0": "d5fc8db0", "c1": "994b7ecb", "c2": "67875b61", "i0": "49bde5d6"} {
		c := &v1.Container{Name: name, Image: "repo/img:v1"}
		if got := fmt.Sprintf("%x", HashContainer(c)); got != want {
			t.Errorf("HashContainer(%s, repo/img:v1) = %s, a kubelet recorded %s", name, got, want)
		}
	}
}

func TestHashContainerIgnoresAllButNameAndImage(t *testing.T) {
	c := &v1.Container{Name: "c0", Image: "repo/img:v1"}
	want := HashContainer(c)
	c.Command, c.Stdin, c.Env = []string{"x"}, true, []v1.EnvVar{{Name: "A"}}
	if got := HashContainer(c); got != want {
		t.Errorf("hash changed from %x to %x with fields that do not count", want, got)
	}
	c.Image += "2"
	if HashContainer(c) == want {
		t.Error("hash did not change with the image")
	}
}

// HashContainer equals the slow computation from the definition, for every byte that JSON can hold.
func TestHashContainerEqualsTheDumpForm(t *testing.T) {
	for _, image := range []string{"", "a", "registry.example:5000/team/app@sha256:" + strings.Repeat("0f", 32), "a\"b", "a<b", "a>b", "a&b", "ü\u2028", "\xff", "\x00\n"} {
		c := &v1.Container{Name: "c", Image: image}
		text := `{"image":` + jsonString(t, image) + `,"name":"c"}`
		slow := fnv.New32a()
		//lint:ignore SA1019 it is the one that kubelets hash with
		fmt.Fprintf(slow, "%v", dump.ForHash([]byte(text)))
		if got, want := HashContainer(c), uint64(slow.Sum32()); got != want {
			t.Errorf("image %q: hash %x, want %x", image, got, want)
		}
	}
}

func TestHashContainerDoesNotAllocate(t *testing.T) {
	c := &v1.Container{Name: "c0", Image: "registry.example/team/app:v1.2.3"}
	if n := testing.AllocsPerRun(100, func() { HashContainer(c) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestHashOfNilContainer(t *testing.T) {
	if got := HashContainer(nil); got != 0 {
		t.Errorf("HashContainer(nil) = %x, want 0", got)
	}
}

func jsonString(t *testing.T, s string) string {
	t.Helper()
	b := must.Get(json.Marshal(s))(t)
	return string(b)
}

func BenchmarkHashContainer(b *testing.B) {
	c := &v1.Container{Name: "c0", Image: "img"}
	for b.Loop() {
		HashContainer(c)
	}
}
