package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// certificates are the TLS files of an agent that serves on an address, or of a client of such an agent.
type certificates struct {
	cert, key, ca string
}

func (c *certificates) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.cert, "tls-cert", "", "`file` with the server's certificate for an https endpoint, PEM")
	flags.StringVar(&c.key, "tls-key", "", "`file` with the key of -tls-cert, PEM")
	flags.StringVar(&c.ca, "tls-ca", "", "`file` with the CA, PEM: any client with a certificate of this CA may use the https endpoint without restriction")
}

// addressOf returns the address in an endpoint such as https://:10250.
func addressOf(serve string) (address string, ok bool) { return strings.CutPrefix(serve, "https://") }

// check returns an error that names a missing flag, or one that serve does not need.
func (c *certificates) check(serve string) error {
	_, isAddress := addressOf(serve)
	for _, f := range []struct{ flag, value string }{{"-tls-cert", c.cert}, {"-tls-key", c.key}, {"-tls-ca", c.ca}} {
		switch {
		case isAddress && f.value == "":
			return fmt.Errorf("-serve %s: %s is missing", serve, f.flag)
		case !isAddress && f.value != "":
			return fmt.Errorf("%s %s: it needs -serve with an address such as https://:10250", f.flag, f.value)
		}
	}
	return nil
}

// load reads the files.
func (c *certificates) load() (tls.Certificate, *x509.CertPool, error) {
	own, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return own, nil, fmt.Errorf("-tls-cert %s and -tls-key %s: %w", c.cert, c.key, err)
	}
	text, err := os.ReadFile(c.ca)
	if err != nil {
		return own, nil, fmt.Errorf("-tls-ca: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return own, nil, errors.New("-tls-ca " + c.ca + ": it has no certificate")
	}
	return own, authority, nil
}

// server returns the TLS configuration of the server, which requires a certificate of the CA.
func (c *certificates) server() (*tls.Config, error) {
	own, authority, err := c.load()
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert}, err
}

// client returns the TLS configuration of a client.
func (c *certificates) client() (*tls.Config, error) {
	own, authority, err := c.load()
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: authority}, err
}
