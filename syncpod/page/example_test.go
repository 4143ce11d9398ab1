package page_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/page"
)

// A page has the events of the configuration that it has observed. The configuration would go to agent.New, whose agent is
// the argument of Handler.
func Example() {
	view := page.New(page.Config{NodeName: "edge-7"})
	var config agent.Config
	view.Observe(&config)

	config.Sync.Events.Eventf(&v1.ObjectReference{Namespace: "default", Name: "web", UID: "1"}, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container")
	answer := httptest.NewRecorder()
	view.Handler(&fakeAgent{}).ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/state", nil))
	var state struct {
		Events []struct{ N, R string }
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &state); err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Events)
	// Output: [{web BackOff}]
}
