package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Health answers /healthz without TLS, and no other path.
func TestHealth(t *testing.T) {
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Run(t, func(ctx context.Context) error { return health(ctx, lis, logr.Discard()) })
	for path, want := range map[string]string{"/healthz": "200 OK", "/healthz/ping": "200 OK", "/pods": "404 Not Found", "/configz": "404 Not Found"} {
		resp, err := http.Get("http://" + lis.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Status != want || want == "200 OK" && string(text) != "ok" {
			t.Errorf("%s: %s %q %v, want %s", path, resp.Status, text, err, want)
		}
	}
}

// TestHealthEnds: Health returns when its context ends.
func TestHealthEnds(t *testing.T) {
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := lis.Addr().String()
	must.Do(t, lis.Close())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Health(ctx, address, logr.Discard()); close(ended) }()
	for served := false; !served; {
		resp, err := http.Get("http://" + address + "/healthz")
		if served = err == nil; served {
			resp.Body.Close()
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("it goes on after the end of its context")
	}
}

// If another process has the address, Health retries, and does not end the agent.
func TestHealthWaitsForItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { Health(ctx, "192.0.2.1:10248", logr.Discard()); close(ended) }()
		time.Sleep(time.Minute)
		select {
		case <-ended:
			t.Error("it has ended")
		default:
		}
		cancel()
		<-ended
	})
}

// TestServeWaitsForItsAddress: if another process has the address, Serve retries, and serves once the address is free.
func TestServeWaitsForItsAddress(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	thief := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer thief.Close()
	failed := make(chan struct{}, 100)
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, "cannot listen") {
			failed <- struct{}{}
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := Config{Handler: http.NotFoundHandler(), Address: thief.Addr().String(), Certificate: func() (*tls.Certificate, error) { return &own, nil }, Log: log}
	go func() { ended <- Serve(ctx, c) }()
	select {
	case err := <-ended:
		t.Fatalf("it has ended: %v", err)
	case <-failed:
	}
	thief.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := tls.Dial("tcp", c.Address, &tls.Config{RootCAs: ca.pool()})
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.Address = "127.0.0.1:port"
	if err := Serve(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Config.Address") {
		t.Errorf("%v, want the field", err)
	}
}

// TestFilesAreReadAgain: invalid certificate files are logged while the server runs, and are an error at the start.
func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	synctest.Test(t, func(t *testing.T) {
		if _, err := Files(certFile, keyFile, nil); err == nil {
			t.Error("files that are not there are read")
		}
		ca := newAuthority(t)
		write := func() *x509.Certificate {
			pair := ca.issue(&x509.Certificate{SerialNumber: big.NewInt(3)})
			key := must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
			for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Leaf.Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
				must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
			}
			return pair.Leaf
		}
		first, failures := write(), 0
		get := must.Get(Files(certFile, keyFile, func(error) { failures++ }))(t)
		want := func(what string, leaf *x509.Certificate, reported int) {
			t.Helper()
			got, err := get()
			if (err == nil) != (leaf != nil) || err == nil && !got.Leaf.Equal(leaf) || failures != reported {
				t.Errorf("%s: %v, %d failures are reported, want %d", what, err, failures, reported)
			}
		}
		second := write()
		want("before a minute", first, 0)
		time.Sleep(rereadAfter)
		want("after a minute", second, 0)
		must.Do(t, os.WriteFile(certFile, []byte("broken"), 0o600))
		time.Sleep(rereadAfter)
		want("broken", second, 1)
		want("broken, again", second, 1)
		time.Sleep(2 * time.Hour)
		want("expired", nil, 2)
		want("expired, again", nil, 2)
		third := write()
		time.Sleep(rereadAfter)
		want("mended", third, 2)
	})
}
