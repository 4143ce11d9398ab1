package handler

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// newGet returns the HTTP request of a handler.
func (r *Runner) newGet(ctx context.Context, req Request) (*http.Request, error) {
	get := req.Handler.HTTPGet
	target, err := targetOf(get, req)
	if err != nil {
		return nil, err
	}
	header, err := r.headerOf(get.HTTPHeaders)
	if err != nil {
		return nil, err
	}
	made, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, invalid("httpGet is no URL") // the error would repeat it
	}
	made.Header = header
	made.Close = true
	if host := header.Get("Host"); host != "" {
		made.Host = host
	}
	return made, nil
}

// targetOf returns the request's URL: the path, which may include a query, on the resolved
// host and port.
func targetOf(get *v1.HTTPGetAction, req Request) (*url.URL, error) {
	scheme := strings.ToLower(string(get.Scheme))
	switch scheme {
	case "":
		scheme = "http"
	case "http", "https":
	default:
		return nil, invalid("httpGet.scheme is %q, want HTTP or HTTPS", get.Scheme)
	}
	host := get.Host
	if host == "" {
		host = req.PodIP
	}
	switch {
	case host == "":
		return nil, ErrNoAddress
	case strings.ContainsAny(host, "/?#@[] \t\r\n"):
		return nil, invalid("httpGet.host is more than a host name or an address") // it may hold a password
	}
	port, err := Port("httpGet.port", get.Port, req.Ports)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(get.Path)
	if err != nil || u.Opaque != "" {
		u = &url.URL{Path: get.Path} // used literally, as in a kubelet
	}
	u.Scheme, u.Host, u.User, u.Fragment = scheme, net.JoinHostPort(host, port), nil, ""
	return u, nil
}

// Port resolves the port of a handler or a probe: a number, the name of one of the container's
// ports, or a number as a string. The error is ErrInvalid and names the field, such as
// "httpGet.port".
func Port(field string, port intstr.IntOrString, ports []v1.ContainerPort) (string, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		var ok bool
		if number, ok = portNamed(port.StrVal, ports); !ok {
			return "", invalid("%s %q is not a port of the container", field, port.StrVal)
		}
	}
	if len(validation.IsValidPortNum(number)) > 0 {
		return "", invalid("%s is %d, want 1 to 65535", field, number)
	}
	return strconv.Itoa(number), nil
}

func portNamed(name string, ports []v1.ContainerPort) (number int, ok bool) {
	for i := range ports {
		if ports[i].Name == name && name != "" {
			return int(ports[i].ContainerPort), true
		}
	}
	number, err := strconv.Atoi(name)
	return number, err == nil
}

// headerOf returns the headers to send. A User-Agent or Accept header of the handler replaces the
// default. If it is empty, the default is removed.
func (r *Runner) headerOf(list []v1.HTTPHeader) (http.Header, error) {
	header := http.Header{}
	for i, h := range list {
		if len(validation.IsHTTPHeaderName(h.Name)) > 0 {
			return nil, invalid("httpGet.httpHeaders[%d].name %q is not the name of a header", i, h.Name)
		}
		if strings.ContainsAny(h.Value, "\r\n\x00") {
			return nil, invalid("httpGet.httpHeaders[%d].value contains a line break or NUL", i)
		}
		header.Add(h.Name, h.Value)
	}
	if _, ok := header["User-Agent"]; !ok {
		header.Set("User-Agent", r.userAgent)
	}
	if accept, ok := header["Accept"]; !ok {
		header.Set("Accept", "*/*")
	} else if accept[0] == "" {
		header.Del("Accept")
	}
	return header, nil
}
