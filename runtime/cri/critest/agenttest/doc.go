// Package agenttest tests whether a node agent keeps the promises that Kubernetes makes for pods. The
// agent may be a kubelet, a provider of virtual-kubelet, or a loop of your own. The package starts an
// in-memory runtime (package critest), adds and removes pods, makes calls fail, loses responses,
// restarts the runtime, kills the agent, and reports which promises the agent kept.
//
// An agent in the process of a test runs in virtual time, so that minutes pass at once:
//
//	func TestMyAgent(t *testing.T) {
//		agenttest.Run(t, synctest.Test, agenttest.Config{
//			Agent: func(node agenttest.Node) (agenttest.Agent, error) { return &myAgent{node: node}, nil },
//		})
//	}
//
// Here myAgent implements the four methods of [Agent]. Package loopagent implements them for
// podsync's own loop. [Judge] does the same in real time, for any agent. [Program] is an Agent for a
// program that watches a folder of manifests. The command examples/referee consists of these parts.
//
// # Words
//
//	scenario  a sequence of actions on a node, as data: [Scenarios] are the same for every agent,
//	          [Random] draws one from a seed
//	promise   a property that must hold, with the document that states it: see [Promises]
//	history   everything that happened: actions, the agent's calls, and the processes that ran
//	check     compares a history with a promise. It accepts every order that the promise
//	          allows, and slowness up to a stated bound; durations are a [Figure]
//	story     the shortest explanation of a broken promise
//
// If no scenario tests a promise, the promise is not judged: it is neither kept nor broken. A promise
// that no document of Kubernetes or CRI makes is marked as podsync's own.
//
// Like package critest, the package depends only on CRI and on nothing of podsync. The project's
// simulation has other checks, which use podsync's own reports, so neither can inherit a mistake of the
// other.
//
// The package does not import testing, so that a program can link it.
package agenttest

// Where each rule lives:
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
