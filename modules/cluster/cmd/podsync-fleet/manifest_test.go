package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The flags and the shapes of the manifest are valid.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	var shapesText string
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		var deployment appsv1.Deployment
		var config v1.ConfigMap
		must.Do(t, yaml.Unmarshal(document, &kind))
		switch kind.Kind {
		case "Deployment":
			err = yaml.UnmarshalStrict(document, &deployment)
			args = deployment.Spec.Template.Spec.Containers[0].Args
		case "ConfigMap":
			err = yaml.UnmarshalStrict(document, &config)
			shapesText = config.Data["shapes.yaml"]
		}
		if err != nil {
			t.Fatalf("%s: %v", kind.Kind, err)
		}
	}
	file := filepath.Join(t.TempDir(), "shapes.yaml")
	must.Do(t, os.WriteFile(file, []byte(shapesText), 0o600))
	for i, a := range args {
		args[i] = strings.NewReplacer("$(POD_IP)", "192.0.2.1", "/etc/fleet/shapes.yaml", file).Replace(a)
	}
	o, err := parse(args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	specs, err := shapes(o)
	if err != nil || len(specs) != 100 || len(specs[0].Taints) != 1 || o.listen == "" || o.clients == "" || o.metrics == "" {
		t.Errorf("%d nodes, %v, options %+v, want 100 nodes with a taint that serve logs and metrics", len(specs), err, o)
	}
}
