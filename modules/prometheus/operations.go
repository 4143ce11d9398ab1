package prometheus

import (
	"context"
	"path"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
)

// DialOptions returns options for cri.Config.Options, which count the calls to the runtime, except the stream of events.
func (m *Metrics) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(m.count)}
}

func (m *Metrics) count(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	began, name := time.Now(), operation(path.Base(method))
	m.operations.WithLabelValues(name).Inc()
	err := invoke(ctx, method, req, reply, conn, options...)
	m.durations.WithLabelValues(name).Observe(time.Since(began).Seconds())
	if err != nil {
		m.errors.WithLabelValues(name).Inc()
	}
	return err
}

// operation converts a method of CRI to the name that a kubelet's metrics use: ListPodSandbox is list_podsandbox.
func operation(method string) string {
	if method == "UpdateContainerResources" {
		return "update_container"
	}
	var name strings.Builder
	for i, r := range strings.Replace(method, "PodSandbox", "Podsandbox", 1) {
		if unicode.IsUpper(r) && i > 0 {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}
