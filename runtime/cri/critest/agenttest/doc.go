// Package agenttest holds a node agent against what pods are promised: a kubelet, a
// provider of virtual-kubelet, a loop of one's own. It brings up a runtime in memory
// (package critest), has pods come and go, lets calls fail, answers be lost, the runtime
// restart and the agent be killed, and says which promises the agent kept.
//
// An agent in the process of a test runs in virtual time, where minutes take none:
//
//	func TestMyAgent(t *testing.T) {
//		agenttest.Run(t, synctest.Test, agenttest.Config{
//			Agent: func(node agenttest.Node) (agenttest.Agent, error) { return &myAgent{node: node}, nil },
//		})
//	}
//
// where myAgent has the four methods of [Agent]. Package loopagent has them for podsync's
// own loop. [Judge] does the same in real time, for any agent, and [Program] is one that is
// a program which watches a folder of manifests. examples/referee is a command made of these.
//
// # Words
//
//	scenario  actions on a node, as data: [Scenarios] are the same for everyone,
//	          [Random] draws one from a seed
//	promise   a property that must hold, with the document that states it: see [Promises]
//	history   what has happened: actions, the agent's calls, and what really ran
//	check     compares a history with a promise. It accepts every order that the promise
//	          allows, and slowness up to a stated bound; durations are a [Figure]
//	story     the shortest explanation of a broken promise
//
// A promise that was not put to the test is not judged, and neither kept nor broken. One
// that no document of Kubernetes or CRI makes is marked as podsync's own.
//
// The package depends on CRI only, like package critest, and on nothing of podsync: the project's
// simulation has other checks, which use podsync's own reports, so neither can inherit a mistake of
// the other.
//
// It does not import testing, so that a program can link it.
//
// # Where each rule lives
//
//	agent.go                  the agent under test, and Config
//	run.go                    Run and Judge
//	scenario.go, random.go    actions; pods.go the pods
//	stage.go, deed.go         how actions are carried out
//	history.go, call.go       what has happened
//	promise.go, check_*.go    what must hold
//	story.go                  explanations
//	report.go, report_*.go    the results of all scenarios
//	program*.go               agents that are programs
package agenttest
