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

// certificates are those of an agent that serves an address, or of who looks into it.
type certificates struct {
	cert, key, ca string
}

func (c *certificates) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.cert, "tls-cert", "", "`file` with the certificate with which an address is served, PEM")
	flags.StringVar(&c.key, "tls-key", "", "`file` with its key, PEM")
	flags.StringVar(&c.ca, "tls-ca", "", "`file` with the authority, PEM: who has a certificate of it may look into the agent at an address, and do all there")
}

// addressOf returns the address that an endpoint such as https://:10250 names.
func addressOf(serve string) (address string, ok bool) { return strings.CutPrefix(serve, "https://") }

// check returns which files are missing for the address to serve.
func (c *certificates) check(serve string) error {
	_, isAddress := addressOf(serve)
	if !isAddress {
		return nil
	}
	for _, f := range []struct{ flag, value string }{{"-tls-cert", c.cert}, {"-tls-key", c.key}, {"-tls-ca", c.ca}} {
		if f.value == "" {
			return fmt.Errorf("-serve %s: %s is missing", serve, f.flag)
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

// server is how an address is served: to those alone whom the authority knows.
func (c *certificates) server() (*tls.Config, error) {
	own, authority, err := c.load()
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert}, err
}

// client is how an agent is reached that is at an address.
func (c *certificates) client() (*tls.Config, error) {
	own, authority, err := c.load()
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: authority}, err
}
