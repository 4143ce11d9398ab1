package sandbox_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/sandbox"
)

// classesFunc is a function that is a sandbox.RuntimeClasses.
type classesFunc func(ctx context.Context, class string) (string, error)

func (f classesFunc) RuntimeHandler(ctx context.Context, class string) (string, error) {
	return f(ctx, class)
}

func TestRuntimeHandler(t *testing.T) {
	broken := errors.New("broken")
	classes := classesFunc(func(_ context.Context, class string) (string, error) {
		if class == "sandboxed" {
			return "kata", nil
		}
		return "", broken
	})
	ask := func(pod *v1.Pod, c sandbox.RuntimeClasses) (string, error) {
		return sandbox.LookupRuntimeHandler(t.Context(), pod, c)
	}
	if got, err := ask(named("p", v1.PodSpec{RuntimeClassName: ptr("sandboxed")}), classes); got != "kata" || err != nil {
		t.Errorf("handler %q, error %v; want kata", got, err)
	}
	if _, err := ask(named("p", v1.PodSpec{RuntimeClassName: ptr("x")}), classes); !errors.Is(err, broken) || !matches(err, `pod ns/p: runtime class "x"`) {
		t.Errorf("error %v, want the pod, the class and the cause", err)
	}
	for _, name := range []*string{nil, ptr("")} {
		if got, err := ask(named("p", v1.PodSpec{RuntimeClassName: name}), nil); got != "" || err != nil {
			t.Errorf("handler %q, error %v; want the default without a lookup", got, err)
		}
	}
	if _, err := ask(named("p", v1.PodSpec{RuntimeClassName: ptr("x")}), nil); !matches(err, "spec.runtimeClassName") {
		t.Errorf("error %v, want the field named", err)
	}
	if _, err := ask(nil, classes); err == nil {
		t.Error("no error for a nil pod")
	}
}
