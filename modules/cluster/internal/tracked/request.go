package tracked

import (
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// parse reads which objects a URL names: /api/v1/namespaces/NS/pods/NAME/status.
func parse(path string) (request, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r request
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		r.GroupVersionResource = schema.GroupVersionResource{Version: parts[1]}
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		r.GroupVersionResource = schema.GroupVersionResource{Group: parts[1], Version: parts[2]}
		parts = parts[3:]
	default:
		return r, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" && !isNamespaceSubresource(parts[2]) {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = strings.Join(parts[2:], "/")
	}
	return r, true
}

func isNamespaceSubresource(name string) bool { return name == "status" || name == "finalize" }

// listOptions reads the options of a list or watch.
func listOptions(query url.Values) (o metav1.ListOptions, err error) {
	err = metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil)
	if err != nil {
		err = apierrors.NewBadRequest(err.Error())
	}
	return o, err
}

// VerbAndResource returns the verb of a request and its resource with the subresource, such as pods/status, "" for other paths.
func VerbAndResource(req *http.Request) (string, string) {
	r, ok := parse(req.URL.Path)
	if !ok {
		return verb(req), ""
	}
	if r.subresource != "" {
		return verb(req), r.Resource + "/" + r.subresource
	}
	return verb(req), r.Resource
}

// verb returns what a request does, in the words of the Kubernetes API.
func verb(req *http.Request) string {
	r, _ := parse(req.URL.Path)
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch watches := req.URL.Query().Get("watch"); {
	case watches == "true" || watches == "1":
		return "watch"
	case r.name == "":
		return "list"
	}
	return "get"
}
