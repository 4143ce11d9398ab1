package tracked

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers discovery requests: the API's groups, versions and kinds.
func (s *Store) discover(req *http.Request) (*http.Response, error) {
	path := strings.Trim(req.URL.Path, "/")
	switch {
	case path == "version":
		return jsonResponse(req, http.StatusOK, version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.2+podsync"}), nil
	case path == "api":
		return jsonResponse(req, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}), nil
	case path == "apis":
		return jsonResponse(req, http.StatusOK, s.groups()), nil
	case path == "api/v1" || strings.HasPrefix(path, "apis/"):
		gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/"))
		if err == nil && s.scheme.IsVersionRegistered(gv) {
			return jsonResponse(req, http.StatusOK, s.resources(gv)), nil
		}
	}
	return errorResponse(req, request{}.notFound()), nil
}

func (s *Store) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	byName := map[string]*metav1.APIGroup{}
	for _, gv := range s.scheme.PrioritizedVersionsAllGroups() {
		if gv.Group == "" || gv.Version == runtime.APIVersionInternal {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if byName[gv.Group] == nil {
			byName[gv.Group] = &metav1.APIGroup{Name: gv.Group, PreferredVersion: v}
		}
		byName[gv.Group].Versions = append(byName[gv.Group].Versions, v)
	}
	for _, g := range byName {
		list.Groups = append(list.Groups, *g)
	}
	slices.SortFunc(list.Groups, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (s *Store) resources(gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String()}
	for kind := range s.scheme.KnownTypes(gv) {
		made, err := s.scheme.New(gv.WithKind(kind))
		if err != nil {
			continue
		}
		if _, ok := made.(object); !ok {
			continue
		}
		mapping, err := s.mapper.RESTMapping(schema.GroupKind{Group: gv.Group, Kind: kind}, gv.Version)
		if err != nil {
			continue
		}
		one := metav1.APIResource{
			Name: mapping.Resource.Resource, SingularName: strings.ToLower(kind), Kind: kind, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		status := one
		status.Name, status.Verbs = one.Name+"/status", metav1.Verbs{"get", "patch", "update"}
		list.APIResources = append(list.APIResources, one, status)
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return list
}
