package critest_test

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// A test as a user of the package writes it, with exported names only.
func TestVirtualTime(t *testing.T) {
	wall := time.Now()
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{Images: []critest.Image{{Name: "app"}}})
		a := agent{
			rt:  runtimeapi.NewRuntimeServiceClient(conn),
			pod: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}},
		}
		sandbox, err := a.sandbox(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.run(t.Context(), sandbox, "trap '' TERM; sleep infinity")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := a.rt.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
			t.Fatal(err)
		}
		stops := rt.Journal().Pod("1").Of(critest.StopContainer)
		if len(stops) != 1 || stops[0].Duration() != 30*time.Second {
			t.Errorf("the pod was stopped by\n%v", stops)
		}
	})
	if took := time.Since(wall); took > 10*time.Second {
		t.Errorf("a day and a stop of 30 s took %v of real time", took)
	}
}
