// Package controllers contains example tests of controllers. The pods of a Job and of a StatefulSet run in virtual time
// on nodes in memory. Kubernetes' own Job and StatefulSet controllers run in the same process.
package controllers

// The files:
//
//	job_test.go          the failure policy of a Job, with Kubernetes' Job controller alone
//	statefulset_test.go  an operator, built on controller-runtime, that replaces the pods of a StatefulSet one after another
