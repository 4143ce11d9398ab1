//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		log.Fatal("csidriver: ", err)
	}
}

// run executes a command until the context ends.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: csidriver driver|registrar|provisioner|attacher|resizer|probe|idle [FLAG...]")
	}
	switch args[0] {
	case "driver":
		return runDriver(ctx, args[1:])
	case "registrar":
		return runRegistrar(ctx, args[1:])
	case "provisioner":
		return runSidecar(ctx, args[1:], provision)
	case "attacher":
		return runSidecar(ctx, args[1:], attach)
	case "resizer":
		return runSidecar(ctx, args[1:], resize)
	case "probe":
		return runProbe(ctx, args[1:])
	case "idle":
		<-ctx.Done()
		return nil
	}
	return fmt.Errorf("there is no command %q", args[0])
}

// newFlags returns a set with the flags of the replaced images that have no meaning here.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	flags.String("v", "", "ignored")
	flags.String("timeout", "", "ignored")
	return flags
}

// runProbe serves /healthz, which calls Probe of the driver.
func runProbe(ctx context.Context, args []string) error {
	flags := newFlags("probe")
	address := flags.String("csi-address", "", "the driver's socket")
	port := flags.String("health-port", "9808", "the port of /healthz")
	if err := flags.Parse(args); err != nil {
		return err
	}
	conn, err := dial(*address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		call, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if _, err := csipb.NewIdentityClient(conn).Probe(call, &csipb.ProbeRequest{}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: ":" + *port, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.ListenAndServe()
}

// dial connects to a driver's socket.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+strings.TrimPrefix(socket, "unix://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// listen listens at a socket, and removes an earlier process's socket.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}
