package handler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// A container must be stopped, and the only remaining information about its pod is in
// the runtime.
func Example() {
	annotations := map[string]string{runtime.AnnotationPreStopHandler: `{"exec":{"command":["nginx","-s","quit"]}}`}
	req, err := handler.PreStop(annotations)
	if err != nil {
		log.Fatal(err)
	}
	req.Container, req.ContainerID = "web", "4be1"

	// In an agent, a connection to the runtime: runtimeapi.NewRuntimeServiceClient(conn).
	execer := execFunc(func(_ context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		fmt.Println("in", req.ContainerId, req.Cmd)
		return &runtimeapi.ExecSyncResponse{ExitCode: 1, Stderr: []byte("no such process")}, nil
	})
	runner, err := handler.New(handler.Config{Exec: execer})
	if err != nil {
		log.Fatal(err)
	}
	grace, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	result, err := runner.Run(grace, req)
	fmt.Println(err)
	fmt.Println(errors.Is(err, handler.ErrExitCode), string(result.Output))
	// Output:
	// in 4be1 [nginx -s quit]
	// exec handler of container "web": the command ended with exit code 1
	// true no such process
}

func ExampleRunner_Run_tcpSocket() {
	runner, err := handler.New(handler.Config{Exec: execFunc(noExec)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = runner.Run(context.Background(), handler.Request{
		Container: "web",
		Handler:   &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}},
	})
	fmt.Println(err)
	// Output:
	// tcpSocket handler of container "web": invalid handler: tcpSocket is not a lifecycle action, use exec, httpGet or sleep
}
