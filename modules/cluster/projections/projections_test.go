package projections_test

import (
	"encoding/pem"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/projections"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A cluster serves one version of ClusterTrustBundles, "" for none.
type cluster struct {
	*testing.T
	*projections.Projections
	kube    *fake.Clientset
	serves  string
	changes atomic.Int32
}

func on(t *testing.T, serves string, there []runtime.Object, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, kube: fake.NewClientset(there...), serves: serves}
		c.kube.PrependReactor("list", "clustertrustbundles", func(a ktesting.Action) (bool, runtime.Object, error) {
			return a.GetResource().Version != c.serves, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		})
		c.Projections = must.Get(projections.New(projections.Config{Kube: c.kube, Changed: func() { c.changes.Add(1) }}))(t)
		stop := must.Go(t, c.Projections.Run)
		test(c)
		stop()
		if _, err := c.project(&v1.ClusterTrustBundleProjection{Name: new("a"), Path: "p"}); err == nil {
			t.Error("no error after the end of Run")
		}
	})
}

// project returns the certificates of a source, as their bytes.
func (c *cluster) project(s *v1.ClusterTrustBundleProjection) (string, error) {
	vol := &v1.Volume{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{}, {ClusterTrustBundle: s}}}}}
	p, err := c.Project(c.Context(), &v1.Pod{}, vol, 1)
	if err != nil {
		return "", err
	}
	if len(p.Files) != 1 || p.Secret || time.Until(p.Next) != time.Minute {
		c.Errorf("%+v, want one file that is no secret, and again in a minute", p)
	}
	var all []string
	for block, rest := pem.Decode(p.Files[s.Path]); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			c.Errorf("%+v", block)
		}
		all = append(all, string(block.Bytes))
	}
	return strings.Join(all, " "), nil
}

func (c *cluster) want(s *v1.ClusterTrustBundleProjection, want string) {
	c.Helper()
	s.Path = "ca.pem"
	if got, err := c.project(s); err != nil || got != want {
		c.Errorf("%q, %v, want %q", got, err, want)
	}
}

func (c *cluster) wantError(s *v1.ClusterTrustBundleProjection, want string) {
	c.Helper()
	if got, err := c.project(s); err == nil || !strings.Contains(err.Error(), want) {
		c.Errorf("%q, %v, want an error with %q", got, err, want)
	}
}

// certificates returns PEM with headers and text around it, and a block that is no certificate.
func certificates(contents ...string) string {
	text := "a comment\n" + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("no")}))
	for _, c := range contents {
		text += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"h": "v"}, Bytes: []byte(c)}))
	}
	return text
}

func beta(name, signer, team string, contents ...string) *v1beta1.ClusterTrustBundle {
	return &v1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}, Spec: v1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: certificates(contents...)}}
}

func TestBundlesAreSelectedByNameOrSigner(t *testing.T) {
	there := []runtime.Object{beta("a", "", "x", "root-2", "root-1", "root-2"), beta("s:1", "example.com/s", "x", "b", "c"), beta("s:2", "example.com/s", "y", "c", "a"), beta("o", "example.com/o", "x", "other")}
	on(t, "v1beta1", there, func(c *cluster) {
		signer := func(s *metav1.LabelSelector) *v1.ClusterTrustBundleProjection {
			return &v1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), LabelSelector: s}
		}
		for range 2 { // the second time from the cache
			c.want(&v1.ClusterTrustBundleProjection{Name: new("a")}, "root-1 root-2")
			c.want(signer(&metav1.LabelSelector{}), "a b c")
			c.want(signer(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "y"}}), "a c")
			c.wantError(signer(nil), "no ClusterTrustBundle of signer") // nil matches nothing
			c.wantError(signer(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "z"}}), `no ClusterTrustBundle of signer "example.com/s" matches the labelSelector`)
			c.wantError(&v1.ClusterTrustBundleProjection{Name: new("none")}, `ClusterTrustBundle "none" not found`)
		}
		c.want(&v1.ClusterTrustBundleProjection{Name: new("none"), Optional: new(true)}, "")
		c.wantError(&v1.ClusterTrustBundleProjection{}, "one of name and signerName is required")
		c.wantError(&v1.ClusterTrustBundleProjection{Name: new("a"), SignerName: new("s")}, "both set")
		c.wantError(signer(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}}), "labelSelector")
	})
}

// A change of a bundle is in the next answer, and is reported. Answers between changes make no request.
func TestBundlesAreWatched(t *testing.T) {
	on(t, "v1beta1", []runtime.Object{beta("a", "", "x", "old")}, func(c *cluster) {
		byName := &v1.ClusterTrustBundleProjection{Name: new("a")}
		c.want(byName, "old")
		synctest.Wait()
		c.changes.Store(0)
		before := len(c.kube.Actions())
		for range 5 {
			c.want(byName, "old")
		}
		if n := len(c.kube.Actions()) - before; n > 0 {
			c.Errorf("%d requests", n)
		}
		bundles := c.kube.CertificatesV1beta1().ClusterTrustBundles()
		must.Get(bundles.Update(c.Context(), beta("a", "", "x", "new"), metav1.UpdateOptions{}))(c)
		synctest.Wait()
		c.want(byName, "new")
		must.Do(c, bundles.Delete(c.Context(), "a", metav1.DeleteOptions{}))
		synctest.Wait()
		c.wantError(byName, "not found")
		if n := c.changes.Load(); n != 2 {
			c.Errorf("%d changes were reported, want 2", n)
		}
	})
}

func TestNewestVersionIsUsed(t *testing.T) {
	stable := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: certificates("stable")}}
	on(t, "v1", []runtime.Object{stable}, func(c *cluster) { c.want(&v1.ClusterTrustBundleProjection{Name: new("a")}, "stable") })
}

// While the API server does not serve bundles, a pod waits with a message, and the agent retries twice a minute.
func TestServerWithoutBundles(t *testing.T) {
	on(t, "", []runtime.Object{beta("a", "", "x", "late")}, func(c *cluster) {
		byName := &v1.ClusterTrustBundleProjection{Name: new("a"), Optional: new(true)}
		for range 50 {
			c.wantError(byName, "clusterTrustBundle: the API server does not serve ClusterTrustBundles (certificates.k8s.io)")
			time.Sleep(time.Second)
		}
		if n := len(c.kube.Actions()); n != 6 {
			c.Errorf("%d requests in 50 s, want 3 versions twice", n)
		}
		c.serves = "v1beta1"
		time.Sleep(time.Minute)
		c.want(byName, "late")
	})
}

func TestConfigOfProjections(t *testing.T) {
	if _, err := projections.New(projections.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Kube") {
		t.Errorf("%v", err)
	}
	noPods := projections.Config{Kube: fake.NewClientset(), Node: func() *v1.Node { return nil }}
	if _, err := projections.New(noPods); err == nil || !strings.Contains(err.Error(), "Config.Pods") {
		t.Errorf("%v", err)
	}
}
