//go:build linux

package e2e

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// images is a registry with an image for each round. The images have one layer and different configs.
type images struct {
	address       string
	layer, config []byte

	mu sync.Mutex
	// blobs has all manifests, configs and layers by their digests.
	blobs map[string][]byte
}

// serveImages serves an archive of busyboximage on the loopback device, from which runtimes pull without TLS.
func (r *rig) serveImages(archive string) *images {
	r.Helper()
	i := &images{blobs: map[string][]byte{}}
	must.Do(r, i.read(archive))
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(r)
	i.address = listener.Addr().String()
	server := &http.Server{Handler: i, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	r.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			r.Errorf("registry: %v", err)
		}
	})
	return i
}

func (i *images) read(archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	for entries := tar.NewReader(file); ; {
		entry, err := entries.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return err
		}
		switch {
		case entry.Name == "layer.tar":
			i.layer = content
		case entry.Name != "manifest.json":
			i.config = content
		}
	}
	if i.layer == nil || i.config == nil {
		return fmt.Errorf("%s has no layer or no config", archive)
	}
	return nil
}

// name returns the image of a round.
func (i *images) name(round int) string { return fmt.Sprintf("%s/soak:%d", i.address, round) }

// add stores a blob, and returns its descriptor.
func (i *images) add(mediaType string, blob []byte) map[string]any {
	sum := sha256.Sum256(blob)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	i.blobs[digest] = blob
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(blob)}
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// manifest returns the digest of the manifest of a round.
func (i *images) manifest(round string) (string, error) {
	var config map[string]any
	if err := json.Unmarshal(i.config, &config); err != nil {
		return "", err
	}
	config["author"] = round
	text, err := json.Marshal(config)
	if err != nil {
		return "", err
	}
	text, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": i.add("application/vnd.oci.image.config.v1+json", text),
		"layers": []any{i.add("application/vnd.oci.image.layer.v1.tar", i.layer)},
	})
	if err != nil {
		return "", err
	}
	return i.add(manifestType, text)["digest"].(string), nil
}

// ServeHTTP answers the requests of a pull.
func (i *images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	dir, reference := path.Split(r.URL.Path)
	mediaType := "application/octet-stream"
	if strings.HasSuffix(dir, "/manifests/") {
		mediaType = manifestType
		if !strings.HasPrefix(reference, "sha256:") {
			digest, err := i.manifest(reference)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			reference = digest
		}
	}
	blob, ok := i.blobs[reference]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", reference)
	w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(blob)
	}
}
