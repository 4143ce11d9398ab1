package conformance

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var execRules = []rule{
	{"exec-result", "ExecSync answers with both outputs and the exit code; a code other than 0 is no error.", checkExecResult},
	{"exec-files", "ExecSync sees the files and the environment of the container: what a readiness probe asks for.", checkExecFiles},
	{"exec-timeout", "When its timeout is over ExecSync fails with DeadlineExceeded or answers with code -1, and the container goes on.", checkExecTimeout},
	{"exec-missing", "ExecSync of a command that is not there fails, or answers with a code other than 0.", checkExecMissing},
	{"exec-exited", "ExecSync in a container that does not run fails, and with NotFound in one that is not there.", checkExecExited},
}

func (b *bench) exec(id string, timeout int64, cmd ...string) (*runtimeapi.ExecSyncResponse, error) {
	return b.rt.ExecSync(b.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: timeout})
}

func checkExecResult(b *bench) {
	id := b.runSandbox(0).run(script("sleep 1000"))
	resp, err := b.exec(id, 10, script("echo out; echo err >&2; exit 3")...)
	b.must(err)
	if string(resp.GetStdout()) != "out\n" || string(resp.GetStderr()) != "err\n" || resp.GetExitCode() != 3 {
		b.broken("it answered %q, %q, %d", resp.GetStdout(), resp.GetStderr(), resp.GetExitCode())
	}
}

func checkExecFiles(b *bench) {
	id := b.runSandbox(0).run(script("sleep 0.5; touch /tmp/ready; sleep 1000"), func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "COLOUR", Value: []byte("blue")}}
	})
	b.waitFor("readiness", func() bool {
		resp, err := b.exec(id, 10, "test", "-e", "/tmp/ready")
		b.must(err)
		return resp.GetExitCode() == 0
	})
	resp, err := b.exec(id, 10, script("echo $COLOUR")...)
	b.must(err)
	if string(resp.GetStdout()) != "blue\n" {
		b.broken("the environment has %q", resp.GetStdout())
	}
}

func checkExecTimeout(b *bench) {
	id := b.runSandbox(0).run(script("sleep 1000"))
	start := time.Now()
	if resp, err := b.exec(id, 1, "sleep", "100"); err != nil || resp.GetExitCode() != -1 {
		b.wantCode(err, codes.DeadlineExceeded)
	}
	if took := time.Since(start); took < 900*time.Millisecond || took > 12*time.Second {
		b.broken("it took %v of 1 s", took)
	}
	if st := b.statusOf(id); st.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		b.broken("the container is %v", st.GetState())
	}
}

func checkExecMissing(b *bench) {
	id := b.runSandbox(0).run(script("sleep 1000"))
	if resp, err := b.exec(id, 10, "/no/such/command"); err == nil && resp.GetExitCode() == 0 {
		b.broken("it answered with 0")
	}
}

func checkExecExited(b *bench) {
	id := b.runSandbox(0).run(script("exit 0"))
	b.waitExited(id)
	if _, err := b.exec(id, 10, "true"); status.Code(err) == codes.OK {
		b.broken("in one that has exited it succeeded")
	}
	_, err := b.exec(noID, 10, "true")
	b.wantCode(err, codes.NotFound)
}
