package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// rereadAfter is the time after which files are read again.
	rereadAfter = time.Minute
	// maxBundle is the size of the largest file of authorities that is read, in bytes.
	maxBundle = 4 << 20
)

// Files returns a Config.Certificate of two files. They are read again when a minute has
// passed, so that a certificate that was renewed there counts. What cannot be read is no
// matter as long as the certificate before is valid.
func Files(certificate, key string) func() (*tls.Certificate, error) {
	var mu sync.Mutex
	var last *tls.Certificate
	var read time.Time
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && time.Since(read) < rereadAfter {
			return last, nil
		}
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil && (last == nil || time.Now().After(last.Leaf.NotAfter)) {
			return nil, err
		}
		if err == nil {
			last = &pair
		}
		read = time.Now()
		return last, nil
	}
}

// Authorities returns a function that returns the authorities of client certificates that a file
// has, and fails if the file has none now. The file is read again when a minute has passed, so
// that an authority that was added or removed there counts. While it cannot be read, the last
// authorities hold, and log is called with each error.
func Authorities(path string, log func(error)) (func() *x509.CertPool, error) {
	last, err := readAuthorities(path)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	read := time.Now()
	return func() *x509.CertPool {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) < rereadAfter {
			return last
		}
		read = time.Now()
		if pool, err := readAuthorities(path); err != nil {
			log(err)
		} else {
			last = pool
		}
		return last
	}, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBundle+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBundle {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxBundle)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in " + path)
	}
	return pool, nil
}
