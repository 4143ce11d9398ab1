// Command cpu records the decisions of a kubelet's CPU manager for random machines and pods.
//
//	cd internal/rig/allocate/recorder
//	go run ./cpu -n 20000 -seed 1 > cpu.jsonl
//
// It links the kubelet's packages, and nothing of podsync: internal/rig/conformance compares the recorded lines with podsync's decisions.
package main
