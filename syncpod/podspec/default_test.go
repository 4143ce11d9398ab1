package podspec_test

import (
	"os"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/podspec"
)

// resources are requests and limits: CPU and memory of each, "" for none.
func resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) v1.ResourceRequirements {
	list := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	return v1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func parse(t testing.TB, text []byte) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{}
	must.Do(t, yaml.UnmarshalStrict(text, pod))
	return pod
}

func inYAML(v any) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func read(t testing.TB, name string) *v1.Pod {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/" + name))(t)
	return parse(t, text)
}

// good is a pod in which nothing is wrong.
func good(t testing.TB) *v1.Pod {
	return podspec.Default(podspec.Static(read(t, "pod.yaml"), "node-1", podspec.Source{Location: "/etc/pods/web.yaml"}))
}

// The defaulted pod was written by hand, by the documentation of the API's fields.
func TestDefault(t *testing.T) {
	pod := read(t, "pod.yaml")
	before := pod.DeepCopy()
	got := podspec.Default(pod)
	if want := read(t, "pod.defaulted.yaml"); !equality.Semantic.DeepEqual(got, want) {
		t.Error(inYAML(want), " is not ", inYAML(got))
	}
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was changed")
	}
	if twice := podspec.Default(got); !equality.Semantic.DeepEqual(got, twice) {
		t.Error(inYAML(got), " is not ", inYAML(twice))
	}
	if podspec.Default(nil) != nil {
		t.Error("nil has defaults")
	}
}

func TestDefaultPullPolicy(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"a": v1.PullAlways, "a:latest": v1.PullAlways, "r:5000/a": v1.PullAlways, "a:1": v1.PullIfNotPresent, "r:5000/a:1": v1.PullIfNotPresent,
		"a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": v1.PullIfNotPresent,
		// The tag alone decides, as in runtime/image.
		"a:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": v1.PullAlways,
		"": v1.PullIfNotPresent, "A:latest": v1.PullIfNotPresent,
	} {
		pod := podspec.Default(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Image: image}, {Image: image, ImagePullPolicy: v1.PullNever}}}})
		if got := pod.Spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
		if got := pod.Spec.Containers[1].ImagePullPolicy; got != v1.PullNever {
			t.Errorf("a policy was replaced by %s", got)
		}
	}
}

func TestDefaultPodResources(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	cpu := func(s string) v1.ResourceRequirements { return resources(s, "", "", "") }
	for name, tc := range map[string]struct{ pod, want v1.ResourceRequirements }{
		"nothing given":            {resources("", "", "", ""), resources("", "", "", "")},
		"requests alone":           {resources("1", "", "", ""), resources("1", "", "", "")},
		"of containers, or limits": {resources("", "", "9", "1Gi"), resources("5", "1Gi", "9", "1Gi")},
		"given requests stay":      {resources("7", "", "9", "1Gi"), resources("7", "1Gi", "9", "1Gi")},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{
			Resources: &tc.pod,
			// 2 keep running; with the run-once container it is 5, with the regular ones 4.
			InitContainers: []v1.Container{{Resources: cpu("2"), RestartPolicy: &always}, {Resources: cpu("3")}},
			Containers:     []v1.Container{{Resources: cpu("1")}, {Resources: cpu("1")}},
		}}
		if got := podspec.Default(pod).Spec.Resources; !equality.Semantic.DeepEqual(*got, tc.want) {
			t.Error(name, ": ", inYAML(tc.want), " is not ", inYAML(*got))
		}
	}
}

// For any manifest, nothing panics, the given pod is not modified, and a second call sets no further
// defaults.
func FuzzPod(f *testing.F) {
	for _, name := range []string{"pod.yaml", "pod.defaulted.yaml"} {
		text := must.Get(os.ReadFile("testdata/" + name))(f)
		f.Add(text)
	}
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"limits":{"cpu":"1n","memory":"-1"}}}],"resources":{"limits":{"hugepages-2Mi":"1"}}}}`))
	f.Add([]byte(`{"metadata":{"uid":"../x","annotations":{"":"b"}},"spec":{"volumes":[{}],"securityContext":{"sysctls":[{}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod := &v1.Pod{}
		if yaml.Unmarshal(text, pod) != nil {
			return
		}
		before := pod.DeepCopy()
		_ = podspec.Validate(pod) // without defaults
		once := podspec.Default(podspec.Static(pod, "Node", podspec.Source{}))
		if twice := podspec.Default(once); !equality.Semantic.DeepEqual(once, twice) {
			t.Error("defaults are set twice: ", inYAML(once), " is not ", inYAML(twice))
		}
		if first, second := podspec.Validate(once), podspec.Validate(once); (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Errorf("two verdicts: %v; %v", first, second)
		}
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Error("the pod was changed")
		}
	})
}

func BenchmarkDefaultAndValidate(b *testing.B) {
	pod := read(b, "pod.yaml")
	b.ReportAllocs()
	for b.Loop() {
		_ = podspec.Validate(podspec.Default(pod))
	}
}
