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
//	scenario  what is done to a node, as data: [Scenarios] are the same for everyone,
//	          [Random] draws one from a seed
//	promise   one thing that holds, with the document that says so: see [Promises]
//	history   what has happened: what was done, the agent's calls, what really ran
//	check     holds a history against a promise. It lets pass every order of things that
//	          the promise allows, and slowness up to a bound that it states; how long
//	          things take is a [Figure]
//	story     the shortest way to see why a promise is broken
//
// A promise that was not put to the test is not judged, and neither kept nor broken. One
// that no document of Kubernetes or CRI makes is marked as podsync's own.
//
// The package knows CRI alone, as package critest does, and nothing of podsync: its checks
// are not those of the project's simulation, which judge by what only podsync tells of
// itself, and the one cannot inherit a mistake of the other.
//
// It does not import testing, so that a program can link it.
//
// # Where what is
//
//	agent.go                  what is tested, and Config
//	run.go                    Run and Judge
//	scenario.go, random.go    what is done; pods.go to which pods
//	stage.go, deed.go         how it is done
//	history.go, call.go       what has happened
//	promise.go, check_*.go    what has to hold
//	story.go                  what is told of it
//	report.go, report_*.go    what came of all scenarios
//	program*.go               agents that are programs
package agenttest
