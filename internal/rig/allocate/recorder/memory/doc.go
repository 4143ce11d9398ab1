// Command memory records the decisions of a kubelet's topology manager and memory manager for random machines and pods.
//
//	cd internal/rig/allocate/recorder
//	go run ./memory -kind topology -n 20000 -seed 1 > topology.jsonl
//	go run ./memory -kind memory -n 20000 -seed 1 > memory.jsonl
//
// It links the kubelet's packages, and nothing of podsync: internal/rig/conformance compares the recorded lines with podsync's
// decisions.
package main
