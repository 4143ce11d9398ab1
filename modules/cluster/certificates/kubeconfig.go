package certificates

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/podsync/podsync/runtime/hostfs"
)

// maxFile is the maximum size of a kubeconfig or certificate file, in bytes.
const maxFile = 4 << 20

// load reads a kubeconfig from a regular file. Paths in it are relative to its directory.
func load(path string) (*rest.Config, error) {
	c, err := parse(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return c, nil
}

func parse(path string) (*rest.Config, error) {
	text, err := hostfs.ReadPath(path, maxFile) // opening a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = path
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	if err := checkFiles(config); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// checkFiles returns an error if a file that a kubeconfig names is not regular, or is too large: client-go would wait for
// the writer of a FIFO, and would read a file of any size. checkFiles ignores missing files, which client-go reports.
func checkFiles(config *clientcmdapi.Config) error {
	for name, cluster := range config.Clusters {
		if err := checkFile(cluster.CertificateAuthority); err != nil {
			return fmt.Errorf("cluster %q: certificate-authority: %w", name, err)
		}
	}
	for name, user := range config.AuthInfos {
		for field, path := range map[string]string{"client-certificate": user.ClientCertificate, "client-key": user.ClientKey, "tokenFile": user.TokenFile} {
			if err := checkFile(path); err != nil {
				return fmt.Errorf("user %q: %s: %w", name, field, err)
			}
		}
	}
	return nil
}

func checkFile(path string) error {
	if path == "" {
		return nil
	}
	_, err := hostfs.ReadPath(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func hasCertificate(c *rest.Config) bool { return c.CertFile != "" || len(c.CertData) > 0 }

// expired reports whether a client certificate is unreadable or has expired.
func expired(c *rest.Config) bool {
	if !hasCertificate(c) {
		return false // the node uses other credentials
	}
	text := c.CertData
	if len(text) == 0 {
		var err error
		if text, err = hostfs.ReadPath(c.CertFile, maxFile); err != nil {
			return true
		}
	}
	all, err := cert.ParseCertsPEM(text)
	return err != nil || time.Now().After(all[0].NotAfter)
}

// write writes a kubeconfig for another kubeconfig's API server. It names a file with a client certificate and its key.
func write(path string, other *rest.Config, pair string) error {
	const name = "default"
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: other.Host, TLSServerName: other.ServerName, InsecureSkipTLSVerify: other.Insecure,
			CertificateAuthority: other.CAFile, CertificateAuthorityData: other.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificate: pair, ClientKey: pair}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
	if other.CAFile != "" {
		config.Clusters[name].CertificateAuthorityData = nil
	}
	text, err := clientcmd.Write(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return hostfs.Replace(path, text, true)
}
