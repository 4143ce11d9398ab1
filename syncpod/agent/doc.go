// Package agent is a whole node agent in one Config. A program that wants a node agent
// imports it first. A zero field means a kubelet's default:
//
//	pods, err := source.NewFolder(source.FolderConfig{Path: "/etc/pods", NodeName: "edge-7"})
//	a, err := agent.New(agent.Config{
//		Client: client, Root: "/var/lib/my-agent", NodeName: "edge-7", Sources: []source.Source{pods},
//		Sync: syncpod.Config{Sink: statuses, Events: recorder},
//	})
//	err = a.Run(ctx)
//
// An [Agent] is a [github.com/podsync/podsync/syncpod/loop.Loop] with the parts that run beside the pods:
//
//	part                                              off with       configured by
//	probes                                            NoProbes
//	rotation of the logs of containers, 10 Mi x 5     NoLogRotation  LogPolicy
//	removal of dead containers and their logs         NoContainerGC
//	removal of unused images when the disk is full    NoImageGC      ImagePolicy
//	evictions when the node is under pressure         NoEviction     EvictionPolicy
//	events of the kernel's OOM kills                  NoOOMEvents
//
// [Agent.Stats] reads the usage of the node and of pods, for package server. Each part is an internal
// package of its own (prober, rotate, gc, images, pressure, oom). A program with its own parts adds them to
// Config.Parts. A program that wants none of these parts builds a loop.Loop.
//
// # When the node is under pressure
//
// The agent measures the node every 10 s. Under pressure of memory, disk or processes it removes unused images and
// dead containers, and then evicts one pod after the other, as a kubelet does. It also evicts pods that exceed their
// storage limits. An evicted pod is reported as Failed with the reason Evicted, and does not start again. Static and
// critical pods are not evicted. Under pressure the agent rejects new pods. [Agent.Pressure] returns the node's
// conditions, and [Agent.ExplainPressure] the reason why a pod is evicted or stays.
//
// # Tests
//
// An agent runs in virtual time (testing/synctest). Because it measures the machine that runs the test, set
// NoEviction, so that a full disk of that machine has no effect.
package agent

// Where each rule lives:
//
// Below Root, besides the files of a Loop: evictions/<uid>.json is an eviction that has not ended, and images/ records
// which pods may use which image.
//
//	agent.go     Agent; config.go Config, observe.go its observers
//	probes.go, logs.go, garbage.go, eviction.go, oom.go
//	             the parts, each a loop.Part; part.go has what they share, notices.go events of the node
