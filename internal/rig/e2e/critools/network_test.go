package critools

import (
	"os"
	"os/exec"
	"testing"
)

// The examples reach pods in memory only: they pass where no address of a pod has a route.
func TestExamplesNeedNoNetwork(t *testing.T) {
	t.Parallel()
	flags := "-n"
	if os.Geteuid() != 0 {
		flags = "-rn" // with a user namespace
	}
	isolated := func(command string) *exec.Cmd {
		return exec.Command("unshare", flags, "sh", "-c", "ip link set lo up && "+command)
	}
	if out, err := isolated("true").CombinedOutput(); err != nil {
		t.Skipf("no network namespace here: %v %s", err, out)
	}
	cmd := isolated("exec go test -count=1 -vet=off ./examples/...")
	cmd.Dir = "../../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
