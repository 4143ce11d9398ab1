//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// account is the directory of the service account's token and of the API server's certificate.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Paths of the API.
const (
	claimsPath      = "/api/v1/persistentvolumeclaims"
	volumesPath     = "/api/v1/persistentvolumes"
	classesPath     = "/apis/storage.k8s.io/v1/storageclasses"
	attachmentsPath = "/apis/storage.k8s.io/v1/volumeattachments"
	nodesPath       = "/apis/storage.k8s.io/v1/csinodes"
)

// A kube is an API server client. It replaces client-go, which would make the program four times as large.
type kube struct {
	client *http.Client
	server string
}

// newKube returns a client for a program in a pod.
func newKube() (*kube, error) {
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the service account has no certificate of the API server")
	}
	server := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return &kube{client: &http.Client{Transport: transport, Timeout: 30 * time.Second}, server: server}, nil
}

// get reads an object or a list.
func (k *kube) get(ctx context.Context, path string, into any) error {
	return k.do(ctx, http.MethodGet, path, "", nil, into)
}

// create creates an object. It succeeds if the object exists.
func (k *kube) create(ctx context.Context, path string, object any) error {
	err := k.do(ctx, http.MethodPost, path, "application/json", object, nil)
	if code := apiCode(0); errors.As(err, &code) && code == http.StatusConflict {
		return nil
	}
	return err
}

// patch applies a merge patch.
func (k *kube) patch(ctx context.Context, path string, p patch) error {
	return k.do(ctx, http.MethodPatch, path, "application/merge-patch+json", p, nil)
}

// remove deletes an object. It succeeds if the object does not exist.
func (k *kube) remove(ctx context.Context, path string) error {
	err := k.do(ctx, http.MethodDelete, path, "", nil, nil)
	if code := apiCode(0); errors.As(err, &code) && code == http.StatusNotFound {
		return nil
	}
	return err
}

// A patch is a merge patch.
type patch map[string]any

// An apiCode is the status code of a failed request.
type apiCode int

func (c apiCode) Error() string { return fmt.Sprintf("status %d", int(c)) }

// do makes a request. The token is read each time, because it is renewed.
func (k *kube) do(ctx context.Context, method, path, contentType string, body, into any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.server+path, reader)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %w: %.500s", method, path, apiCode(resp.StatusCode), text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
