// Command readonlyport stands in for the read-only port of a kubelet, which podsync-node does not serve. It listens on
// 127.0.0.1:10255 without authentication, and passes each GET request to an agent's server at port 10250:
//
//	readonlyport ADDRESS CA CERTIFICATE KEY
//
// ADDRESS is the agent's host and port. CA, CERTIFICATE and KEY are files: the authority of the agent's certificate, and
// the client certificate of a user who may read the node's metrics. The command is for tests alone.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "readonlyport:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: readonlyport ADDRESS CA CERTIFICATE KEY")
	}
	ca, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return fmt.Errorf("%s has no certificate", args[1])
	}
	certificate, err := tls.LoadX509KeyPair(args[2], args[3])
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}
	server := &http.Server{
		Addr:              "127.0.0.1:10255",
		Handler:           handler(&url.URL{Scheme: "https", Host: args[0]}, transport),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ListenAndServe()
}

// handler passes GET requests to the agent, and refuses the others. A test may also use it as its HTTP proxy, because the
// suite asks for /stats/summary at the port that the configuration names, which is 0.
func handler(agent *url.URL, transport http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(agent) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "the read-only port serves GET requests", http.StatusMethodNotAllowed)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}
