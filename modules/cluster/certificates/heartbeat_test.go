package certificates

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Heartbeats have their own connection, no rate limit and a timeout. After the connection is closed, they use a new one.
func TestHeartbeatConnections(t *testing.T) {
	peers := make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peers <- r.RemoteAddr
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Node","apiVersion":"v1"}`))
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\nusers: [{name: u, user: {token: t}}]\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	client := must.Get(NewClient(ClientConfig{Kubeconfig: path}))(t)
	heartbeat, closeConnections := client.Heartbeat(7 * time.Second)
	if heartbeat.QPS != -1 || heartbeat.Timeout != 7*time.Second || client.REST().Timeout != 0 {
		t.Errorf("QPS %v and timeout %v, want -1 and 7s", heartbeat.QPS, heartbeat.Timeout)
	}
	clientOf := func(c *rest.Config) kubernetes.Interface {
		return must.Get(kubernetes.NewForConfig(c))(t)
	}
	ask := func(kube kubernetes.Interface) string {
		t.Helper()
		must.Get(kube.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}))(t)
		return <-peers
	}
	beats, rest := clientOf(heartbeat), clientOf(client.REST())
	own, others := ask(beats), ask(rest)
	if own == others || own != ask(beats) {
		t.Errorf("heartbeats come from %s, other requests from %s, want a connection of their own that stays", own, others)
	}
	closeConnections()
	if next := ask(beats); next == own {
		t.Error("the connection of heartbeats is not closed")
	}
	if others != ask(rest) {
		t.Error("the connection of other requests is closed")
	}
}
