package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority creates a self-signed certificate for all purposes, and returns the flags that name it.
func authority(t *testing.T, name string) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-tls-cert", filepath.Join(dir, "cert"), "-tls-key", filepath.Join(dir, "key"), "-tls-ca", filepath.Join(dir, "cert")}
}

// Only clients with a certificate of the CA may inspect an agent that serves on an address.
func TestInspectionForAnAddress(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + lis.Addr().String()
	lis.Close()
	known, stranger := authority(t, "node"), authority(t, "stranger")
	a := startAgent(t, append([]string{"-serve", address}, known...)...)
	if err := os.WriteFile(filepath.Join(a.manifests, "web.yaml"), []byte(webManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(flags []string, args ...string) (string, error) {
		var out bytes.Buffer
		line := append([]string{args[0], "-serve", address}, flags...)
		err := runCommand(t.Context(), append(line, args[1:]...), console{nil, &out, &out})
		return out.String(), err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if got, err := do(known, "logs", "web-n1", "-c", "other"); err == nil && got == "of the other\n" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if got, err := do(known, "exec", "web-n1", "-c", "app", "--", "echo", "hello"); err != nil || got != "hello\n" {
		t.Errorf("exec: %q, %v, want %q and no error", got, err, "hello\n")
	}
	mixed := append(stranger[:4:4], known[4:]...) // trusts the agent, but the agent does not trust it
	for _, flags := range [][]string{stranger, mixed} {
		if got, err := do(flags, "logs", "web-n1"); err == nil || got != "" || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a stranger: %q, %v, want an error and %q and %q in it", got, err, "", "certificate")
		}
	}
	if got, err := do(known[:4], "logs", "web-n1"); err == nil || !strings.Contains(err.Error(), "-tls-ca is missing") {
		t.Errorf("without an authority: %q, %v", got, err)
	}
	a.interrupt()
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
}
