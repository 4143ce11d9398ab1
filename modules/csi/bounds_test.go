package csi

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi/registration"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// talkative is a plugin with long answers.
type talkative struct {
	registerapi.UnimplementedRegistrationServer
	info *registerapi.PluginInfo
	err  error
}

func (p *talkative) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return p.info, p.err
}

// Messages and headers of a driver, which contain its errors, are received up to a limit, and of an error little is
// repeated.
func TestAnswersOfDriversAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.sock")
	listener := must.Get(net.Listen("unix", path))(t)
	p, server := &talkative{}, grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	for _, tt := range []struct {
		name  string
		info  *registerapi.PluginInfo
		error string
		want  string
	}{
		{"a message", &registerapi.PluginInfo{Name: strings.Repeat("x", maxAnswer)}, "", "larger than max"},
		{"an error", nil, strings.Repeat("x", 2*maxMessage), "xxxx"},
		{"an error above the headers", nil, strings.Repeat("x", 32<<10), "GetInfo"},
	} {
		conn, err := registration.Dial(path, maxAnswer)
		if err != nil {
			t.Fatal(err)
		}
		if p.info, p.err = tt.info, nil; tt.error != "" {
			p.err = status.Error(codes.Internal, tt.error)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = registerapi.NewRegistrationClient(conn).GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
		cancel()
		text := ""
		if err != nil {
			text = (&callError{call: "GetInfo", err: err}).Error()
		}
		received := strings.Contains(text, "xxxx")
		if !strings.Contains(text, tt.want) || received != (tt.want == "xxxx") || len(text) > maxMessage+200 {
			t.Errorf("%s: an error of %d bytes: %.200s, want %q in it", tt.name, len(text), text, tt.want)
		}
		conn.Close()
	}
}

// A record that could not be read again is not written.
func TestRecordThatIsTooLarge(t *testing.T) {
	r := &record{Source: source{Driver: "d.example.com", Handle: "h"}, Pods: map[types.UID]*use{"a": {Names: []string{strings.Repeat("x", maxRecord)}}}}
	l := layout{root: t.TempDir()}
	if err := r.write(l, true); err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("error %v, want the limit", err)
	}
	if found, err := readRecords(l); err != nil || len(found) > 0 {
		t.Errorf("%d records, %v", len(found), err)
	}
}
