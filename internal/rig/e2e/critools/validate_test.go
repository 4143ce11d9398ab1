package critools

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"sigs.k8s.io/cri-tools/pkg/framework"
	_ "sigs.k8s.io/cri-tools/pkg/validate" // has the specs

	"github.com/podsync/podsync/runtime/cri/critest"
)

// All specs pass that do not need a kernel. To see whether others do, too: PODSYNC_KERNEL=all go test -run Specs -timeout 1h
func TestSpecs(t *testing.T) {
	t.Parallel()
	rt, endpoint := listening(t, critest.Config{Programs: map[string]critest.Program{"top": top}})
	publish(t, rt)
	// The specs dial pod addresses by the default transport.
	http.DefaultTransport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if conn, err := rt.DialPod(ctx, network, address); err == nil {
			return conn, nil
		}
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	framework.TestContext = framework.TestContextType{
		RuntimeServiceAddr: endpoint, RuntimeServiceTimeout: time.Minute, ImageServiceTimeout: time.Minute, RegistryPrefix: framework.DefaultRegistryPrefix,
	}
	known := notRun(t)
	suite, reporter := ginkgo.GinkgoConfiguration()
	reporter.Succinct, reporter.NoColor = true, true
	suite.SkipStrings = []string{`\[k8s\.io\] (AppArmor|SELinux) `} // which run only where the machine has them
	if os.Getenv("PODSYNC_KERNEL") == "" {
		for name := range known {
			suite.SkipStrings = append(suite.SkipStrings, regexp.QuoteMeta(name)+"$")
		}
	}
	ginkgo.ReportAfterSuite("specs", func(r ginkgo.Report) {
		count := map[types.SpecState]int{}
		for _, s := range r.SpecReports {
			if s.LeafNodeType != types.NodeTypeIt {
				continue
			}
			count[s.State]++
			if s.State == types.SpecStatePassed && known[s.FullText()] {
				t.Errorf("needs_kernel.txt lists a spec that passes: %s", s.FullText())
			}
			delete(known, s.FullText())
		}
		for name := range known {
			t.Errorf("needs_kernel.txt lists a spec that does not exist: %s", name)
		}
		t.Logf("%d specs passed, %d failed, %d were skipped", count[types.SpecStatePassed], count[types.SpecStateFailed], count[types.SpecStateSkipped])
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CRI", suite, reporter)
}

// publish adds the images whose content the specs look at. The others need none.
func publish(t *testing.T, rt *critest.Runtime) {
	t.Helper()
	const registry = "gcr.io/k8s-staging-cri-tools/test-image-"
	pause, tags := "sha256:"+strings.Repeat("9", 64), "sha256:"+strings.Repeat("3", 64)
	for _, i := range []critest.RemoteImage{
		{Image: critest.Image{Name: "registry.k8s.io/pause:3.9", ID: pause}},
		{Image: critest.Image{Name: "k8s.gcr.io/pause:3.9", ID: pause}},
		{Image: critest.Image{Name: registry + "tags:1", ID: tags}},
		{Image: critest.Image{Name: registry + "tags:2", ID: tags}},
		{Image: critest.Image{Name: registry + "tags:3", ID: tags}},
		{Image: critest.Image{Name: registry + "tag:test", Files: map[string]string{"/bin/sh": "", "/bin/ls": `ls "$@"`}}, PullTime: 5 * time.Millisecond},
		{Image: critest.Image{Name: registry + "predefined-group", Files: map[string]string{"/etc/passwd": ""}}},
		{Image: critest.Image{Name: registry + "user-uid", User: "1002"}},
		{Image: critest.Image{Name: registry + "user-uid-group", User: "1003:50000"}},
		{Image: critest.Image{Name: registry + "user-username", User: "www-data"}},
		{Image: critest.Image{Name: registry + "user-username-group", User: "www-data:www-data"}},
	} {
		if err := rt.Publish(i); err != nil {
			t.Fatal(err)
		}
	}
}

func notRun(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("needs_kernel.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "[k8s.io]") {
			names[strings.TrimSpace(line)] = true
		}
	}
	return names
}

// listening returns a runtime, and its endpoint for other programs.
func listening(t *testing.T, cfg critest.Config) (rt *critest.Runtime, endpoint string) {
	t.Helper()
	cfg.Dir = os.TempDir() // the specs write files there
	rt, err := critest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	endpoint, err = rt.Listen(filepath.Join(t.TempDir(), "critest.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return rt, endpoint
}

// top runs until it is stopped.
func top(ctx context.Context, c *critest.Command) int {
	select {
	case n := <-c.Signals:
		return 128 + n
	case <-ctx.Done():
		return 137
	}
}
