package node_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/eviction"
)

// recorded records the events of a node, and sets the node's pressure conditions.
type recorded struct {
	*testing.T
	mu       sync.Mutex
	events   []string
	pressure []v1.NodeCondition
}

func (r *recorded) Event(object runtime.Object, kind, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := object.(*v1.ObjectReference); *ref != (v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "n1"}) {
		r.Errorf("an event about %+v", ref)
	}
	r.events = append(r.events, kind+" "+reason+" "+message)
}

// expect checks the events since the last call, in order.
func (r *recorded) expect(when string, want ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.events, want) {
		r.Errorf("%s: the events are %q, want %q", when, r.events, want)
	}
	r.events = nil
}

// has sets the pressures of the node.
func (r *recorded) has(kinds ...v1.NodeConditionType) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pressure = eviction.Decide(eviction.Rules{}, eviction.State{}, time.Now()).Conditions
	for i := range r.pressure {
		if slices.Contains(kinds, r.pressure[i].Type) {
			r.pressure[i].Status = v1.ConditionTrue
		}
	}
}

func (r *recorded) conditions() []v1.NodeCondition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pressure)
}

// is returns the event of a condition.
func is(reason string) string { return "Normal " + reason + " Node n1 status is now: " + reason }

// onRecorded runs a node with the boot ID "new" whose events are recorded.
func onRecorded(t *testing.T, there *v1.Node, test func(s *site, r *recorded)) {
	onSlowRuntime(t, there, &cri{}, test)
}

func onSlowRuntime(t *testing.T, there *v1.Node, rt *cri, test func(s *site, r *recorded)) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &site{T: t, kube: fake.NewClientset(), runtime: rt}, &recorded{T: t}
		if there != nil {
			s.kube = fake.NewClientset(there)
		}
		watchCopies(s.kube)
		c := configOf(s.kube, s.runtime)
		c.Events, c.Pressure, c.Machine.BootID = r, r.conditions, "new"
		s.Node = must.Get(node.New(c))(t)
		must.Go(t, s.Node.Run)
		time.Sleep(time.Second)
		test(s, r)
	})
}

const starting = "Normal Starting Starting kubelet."

var fresh = []string{starting, is("NodeHasSufficientMemory"), is("NodeHasNoDiskPressure"), is("NodeHasSufficientPID"), is("NodeReady")}

// Each change of a condition is recorded as one event of the Node.
func TestConditionsAreEvents(t *testing.T) {
	onRecorded(t, nil, func(s *site, r *recorded) {
		time.Sleep(20 * time.Minute)
		r.expect("a new node", fresh...)
		s.runtime.change(func(c *cri) { c.offline = true })
		time.Sleep(10 * time.Minute)
		r.expect("a runtime without a network", is("NodeNotReady"))
		s.runtime.change(func(c *cri) { c.offline = false })
		time.Sleep(10 * time.Minute)
		r.expect("a runtime that has one again", is("NodeReady"))
		r.has(v1.NodeMemoryPressure, v1.NodePIDPressure)
		time.Sleep(time.Minute)
		r.expect("pressure on memory and PIDs", is("NodeHasInsufficientMemory"), is("NodeHasInsufficientPID"))
		r.has(v1.NodeDiskPressure)
		time.Sleep(time.Minute)
		r.expect("pressure on the disk alone", is("NodeHasSufficientMemory"), is("NodeHasDiskPressure"), is("NodeHasSufficientPID"))
		r.has()
		time.Sleep(time.Minute)
		r.expect("no pressure", is("NodeHasNoDiskPressure"))
	})
}

// cordon sets spec.unschedulable of the node.
func (s *site) cordon(cordoned bool) {
	s.Helper()
	object := s.get()
	object.Spec.Unschedulable = cordoned
	must.Get(s.kube.CoreV1().Nodes().Update(s.Context(), object, metav1.UpdateOptions{}))(s)
	time.Sleep(time.Minute)
}

func TestCordonIsAnEvent(t *testing.T) {
	onRecorded(t, nil, func(s *site, r *recorded) {
		r.expect("a new node", fresh...)
		s.cordon(true)
		r.expect("cordon", is("NodeNotSchedulable"))
		s.cordon(false)
		r.expect("uncordon", is("NodeSchedulable"))
	})
}

// bootedBefore returns a Node whose agent has ended: the controller manager has set its condition Ready to Unknown.
func bootedBefore(id string, unschedulable bool) *v1.Node {
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1.NodeSpec{Unschedulable: unschedulable}}
	there.Status.NodeInfo.BootID = id
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeReady, v1.NodeNetworkUnavailable} {
		status := v1.ConditionFalse
		if kind == v1.NodeReady {
			status = v1.ConditionUnknown
		}
		there.Status.Conditions = append(there.Status.Conditions, v1.NodeCondition{Type: kind, Status: status})
	}
	return there
}

// An agent that starts on an existing Node records an event of a reboot, if there was one, and events of changed
// conditions.
func TestRebootIsAnEvent(t *testing.T) {
	onRecorded(t, bootedBefore("old", true), func(s *site, r *recorded) {
		time.Sleep(10 * time.Minute)
		r.expect("a boot", starting, is("NodeNotSchedulable"), "Warning Rebooted Node n1 has been rebooted, boot id: new", is("NodeReady"))
	})
	for _, id := range []string{"new", ""} { // "" is the boot ID of a Node without a status
		onRecorded(t, bootedBefore(id, false), func(s *site, r *recorded) {
			time.Sleep(10 * time.Minute)
			r.expect("no boot", starting, is("NodeReady"))
		})
	}
}

// While the status cannot be written, no event of a change is recorded. Each change is recorded once when the write
// succeeds.
func TestEventsWhileTheStatusCannotBeWritten(t *testing.T) {
	onRecorded(t, nil, func(s *site, r *recorded) {
		r.expect("a new node", fresh...)
		var mu sync.Mutex
		away := true
		s.react("patch", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			return away, nil, errors.New("unavailable")
		})
		s.runtime.change(func(c *cri) { c.offline = true })
		time.Sleep(5 * time.Minute)
		r.expect("no server")
		mu.Lock()
		away = false
		mu.Unlock()
		time.Sleep(time.Minute)
		r.expect("a server", is("NodeNotReady"))
	})
}

// When a Node is created again, its conditions are recorded again, and the start of the agent is not.
func TestEventsOfANodeThatIsMadeAgain(t *testing.T) {
	onRecorded(t, nil, func(s *site, r *recorded) {
		r.expect("a new node", fresh...)
		must.Do(s, s.kube.CoreV1().Nodes().Delete(s.Context(), "n1", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		r.expect("deleted", fresh[1:]...)
	})
}

// N1: a starting agent waits for the first response of the runtime, for downAfter at most: a slow runtime leaves a node
// ready, and a runtime that hangs does not.
func TestN1_StartLeavesTheNodeReady(t *testing.T) {
	there := bootedBefore("new", false)
	for i := range there.Status.Conditions {
		if c := &there.Status.Conditions[i]; c.Type == v1.NodeReady {
			c.Status = v1.ConditionTrue
		}
	}
	onSlowRuntime(t, there, &cri{delay: 20 * time.Second}, func(s *site, r *recorded) {
		time.Sleep(10 * time.Minute)
		r.expect("a slow runtime", starting)
	})
	onSlowRuntime(t, there, &cri{hangs: true}, func(s *site, r *recorded) {
		time.Sleep(28 * time.Second)
		r.expect("a runtime that hangs", starting)
		time.Sleep(4 * time.Second)
		r.expect("for longer than an answer holds", is("NodeNotReady"))
	})
	onSlowRuntime(t, there, &cri{err: errors.New("connection refused")}, func(s *site, r *recorded) {
		r.expect("a runtime that is down", starting, is("NodeNotReady"))
	})
}
