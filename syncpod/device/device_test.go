package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// counting allocates a different device to each container.
type counting struct {
	mu       sync.Mutex
	asked    int
	released []types.UID
	err      error
	give     func(n int) Allocation
}

func (c *counting) Allocate(context.Context, *v1.Pod, *v1.Container) (Allocation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.err != nil {
		return Allocation{}, c.err
	}
	if c.give != nil {
		return c.give(c.asked), nil
	}
	return numbered(c.asked), nil
}

func (c *counting) Release(_ context.Context, uid types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.released = append(c.released, uid)
	return nil
}

func numbered(n int) Allocation {
	path := fmt.Sprint("/dev/x", n)
	return Allocation{
		Devices: []Device{{path, path, "rw"}}, Mounts: []Mount{{"/lib/x", "/usr/lib/x", true}},
		Env: map[string]string{"X": fmt.Sprint(n)}, Annotations: map[string]string{"x.test/n": fmt.Sprint(n)}, CDIDevices: []string{fmt.Sprint("x.test/x=", n)},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var web = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}}

func keeper(t *testing.T, dir string, a Allocator) *Keeper {
	t.Helper()
	k, err := New(Config{State: dir, Allocator: a})
	must(t, err)
	return k
}

func allocate(t *testing.T, k *Keeper, container string) Allocation {
	t.Helper()
	given, err := k.Allocate(t.Context(), web, &v1.Container{Name: container})
	must(t, err)
	return given
}

// A container keeps its devices until its pod is removed, over agent restarts.
func TestKeeper(t *testing.T) {
	dir, a := filepath.Join(t.TempDir(), "devices"), &counting{}
	k := keeper(t, dir, a)
	for range 3 {
		for i, name := range []string{"app", "side"} {
			if got := allocate(t, k, name); !reflect.DeepEqual(got, numbered(i+1)) {
				t.Errorf("%s was given %+v, want %+v", name, got, numbered(i+1))
			}
		}
		k = keeper(t, dir, a)
	}
	must(t, k.RemovePod(t.Context(), web.UID))
	must(t, k.RemovePod(t.Context(), "another"))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 || fmt.Sprint(a.released) != "[uid another]" {
		t.Errorf("left is %v, %v; released were %v", entries, err, a.released)
	}
	if got := allocate(t, keeper(t, dir, a), "app"); !reflect.DeepEqual(got, numbered(3)) {
		t.Errorf("after its end a pod is given %+v", got)
	}
}

// Containers without devices have no file, so the Allocator is called for them again.
func TestNothingIsNotKept(t *testing.T) {
	dir, a := filepath.Join(t.TempDir(), "devices"), &counting{give: func(int) Allocation { return Allocation{} }}
	k := keeper(t, dir, a)
	for range 2 {
		if got := allocate(t, k, "app"); !got.isZero() {
			t.Errorf("it was given %+v", got)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || a.asked != 2 {
		t.Errorf("%v, asked %d times", err, a.asked)
	}
}

// Failures are reported, and not stored.
func TestFailures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "devices")
	a := &counting{err: errors.New("no device is free")}
	k := keeper(t, dir, a)
	if _, err := k.Allocate(t.Context(), web, &v1.Container{Name: "app"}); !errors.Is(err, a.err) {
		t.Errorf("error is %v", err)
	}
	if err := k.RemovePod(t.Context(), web.UID); !errors.Is(err, a.err) {
		t.Errorf("error is %v", err)
	}
	a.err, a.give = nil, func(int) Allocation { return Allocation{Devices: []Device{{"/dev/x", "/dev/../etc", "rw"}}} }
	if _, err := k.Allocate(t.Context(), web, &v1.Container{Name: "app"}); err == nil || !strings.Contains(err.Error(), `container "app" is given: devices[0].containerPath is "/dev/../etc"`) {
		t.Errorf("error is %v, want an error and %q in it", err, `container "app" is given: devices[0].containerPath is "/dev/../etc"`)
	}
	a.give = nil
	must(t, os.WriteFile(dir, nil, 0o600)) // no directory can be made there
	if _, err := k.Allocate(t.Context(), web, &v1.Container{Name: "app"}); err == nil {
		t.Error("what cannot be written is given")
	}
	must(t, os.Remove(dir))
	allocate(t, k, "app")
	for _, text := range []string{"", "{", `{"version":2,"containers":{}}`, `{"version":1}`, `{"version":1,"containers":{"app":{"devices":[{"hostPath":"x"}]}}}`} {
		must(t, os.WriteFile(filepath.Join(dir, "uid.json"), []byte(text), 0o600))
		asked := a.asked
		if _, err := keeper(t, dir, a).Allocate(t.Context(), web, &v1.Container{Name: "app"}); err == nil || !strings.Contains(err.Error(), "what pod uid was given, below "+dir) || a.asked != asked {
			t.Errorf("file %q: %v, asked %d times", text, err, a.asked-asked)
		}
	}
}

// The Allocator of the next agent gets the allocations of the previous agent, and the pods whose allocations
// cannot be read.
func TestAllocations(t *testing.T) {
	dir, a := filepath.Join(t.TempDir(), "devices"), &counting{give: func(n int) Allocation { return Allocation{Resources: map[string][]string{"x.test/x": {fmt.Sprint(n)}}} }}
	k := keeper(t, dir, a)
	if given, unread, err := k.Allocations(); len(given) > 0 || len(unread) > 0 || err != nil {
		t.Errorf("of nothing there is %v, %v, %v", given, unread, err)
	}
	allocate(t, k, "app")
	allocate(t, k, "side")
	must(t, os.WriteFile(filepath.Join(dir, "cut.json"), []byte("{"), 0o600))
	given, unread, err := keeper(t, dir, a).Allocations()
	if fmt.Sprint(given["uid"]["app"].Resources, given["uid"]["side"].Resources) != "map[x.test/x:[1]] map[x.test/x:[2]]" || len(given) != 1 || err != nil {
		t.Errorf("given is %v, %v", given, err)
	}
	if len(unread) != 1 || unread["cut"] == nil || !strings.Contains(unread["cut"].Error(), "what pod cut was given, below "+dir) {
		t.Errorf("unread are %v", unread)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o600)) // no directory
	if _, _, err := k.Allocations(); err == nil {
		t.Error("a directory that is none has allocations")
	}
}

// Regardless of when the agent ends, a container gets the stored devices, or new ones are requested.
func TestF14_KeptOverACrash(t *testing.T) {
	dir, a := filepath.Join(t.TempDir(), "devices"), &counting{}
	allocate(t, keeper(t, dir, a), "app")
	must(t, os.WriteFile(filepath.Join(dir, ".uid.json.tmp"), []byte(`{"version":1,"conta`), 0o600)) // of a write that was cut
	k := keeper(t, dir, a)
	if got := allocate(t, k, "app"); !reflect.DeepEqual(got, numbered(1)) {
		t.Errorf("it was given %+v", got)
	}
	allocate(t, k, "side")
	if got := allocate(t, keeper(t, dir, a), "side"); !reflect.DeepEqual(got, numbered(2)) {
		t.Errorf("it was given %+v", got)
	}
}

func TestValidate(t *testing.T) {
	for want, a := range map[string]Allocation{
		"":                                    numbered(1),
		`devices[1].hostPath is "dev/x"`:      {Devices: []Device{{"/dev/x", "/dev/x", "r"}, {"dev/x", "/dev/x", "r"}}},
		`devices[0].permissions is "rx"`:      {Devices: []Device{{"/dev/x", "/dev/x", "rx"}}},
		`devices[0].permissions is ""`:        {Devices: []Device{{"/dev/x", "/dev/x", ""}}},
		`mounts[0].containerPath is ""`:       {Mounts: []Mount{{"/x", "", false}}},
		`env has "A=B"`:                       {Env: map[string]string{"A=B": ""}},
		`cdiDevices[0] is "gpu0"`:             {CDIDevices: []string{"gpu0"}},
		`cdiDevices[0] is "vendor.com/gpu"`:   {CDIDevices: []string{"vendor.com/gpu"}},
		`cdiDevices[1] is "vendor.com/=name"`: {CDIDevices: []string{"a/b=c", "vendor.com/=name"}},
	} {
		if err := a.Validate(); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		`Config.State is "x"`:         {State: "x", Allocator: &counting{}},
		"Config.Allocator is missing": {State: "/x"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}
