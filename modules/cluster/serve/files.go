package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// rereadAfter is the time after which files are read again.
	rereadAfter = time.Minute
	// maxBundle is the maximum size of a file of authorities, in bytes.
	maxBundle = 4 << 20
)

// Files returns a Config.Certificate function that reloads the key pair every minute, when it is
// called. It fails if the first load fails. If a later load fails, the last certificate is used until
// it expires, and log is called with each error.
func Files(certificate, key string, log func(error)) (func() (*tls.Certificate, error), error) {
	first, err := readPair(certificate, key)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	last, read := &first, time.Now()
	var failed error
	return func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(read) >= rereadAfter {
			read = time.Now()
			pair, err := readPair(certificate, key)
			if failed = err; err != nil {
				log(err)
			} else {
				last = &pair
			}
		}
		if failed != nil && time.Now().After(last.Leaf.NotAfter) {
			return nil, failed
		}
		return last, nil
	}, nil
}

// readPair reads a certificate and its key from regular files: opening a FIFO would wait for a writer, and delay all
// handshakes.
func readPair(certificate, key string) (tls.Certificate, error) {
	chain, err := hostfs.ReadPath(certificate, maxBundle)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := hostfs.ReadPath(key, maxBundle)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, private)
}

// Authorities returns a function that returns the authorities of client certificates in a file. It
// fails if the file has none now. The file is read again after a minute, so that added and removed
// authorities take effect. While the file cannot be read, the last authorities stay in effect, and
// log is called with each error.
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
	text, err := hostfs.ReadPath(path, maxBundle) // opening a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in " + path)
	}
	return pool, nil
}
