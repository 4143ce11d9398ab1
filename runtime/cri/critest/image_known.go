package critest

import (
	"path"
	"slices"
)

// A knownProgram is what this package knows of an image without its description.
type knownProgram struct {
	cmd      []string // what runs without a command; none for a server
	programs []string // servers, by their commands' names
}

// knownImage describes images that tests and demonstrations use.
func knownImage(name string) knownProgram {
	switch repository(name) {
	case "docker.io/library/busybox", "docker.io/library/alpine", "registry.k8s.io/e2e-test-images/busybox":
		return knownProgram{cmd: []string{"sh"}, programs: []string{"httpd"}}
	case "docker.io/library/debian", "docker.io/library/ubuntu":
		return knownProgram{cmd: []string{"bash"}}
	case "docker.io/library/nginx", "registry.k8s.io/e2e-test-images/nginx":
		return knownProgram{programs: []string{"nginx", "nginx-debug"}}
	case "docker.io/library/httpd", "registry.k8s.io/e2e-test-images/httpd":
		return knownProgram{programs: []string{"httpd", "httpd-foreground"}}
	case "docker.io/library/redis":
		return knownProgram{programs: []string{"redis-server"}}
	case "registry.k8s.io/pause":
		return knownProgram{programs: []string{"pause"}}
	case "registry.k8s.io/e2e-test-images/agnhost":
		return knownProgram{programs: []string{"agnhost"}}
	}
	return knownProgram{}
}

// serves reports whether a command that is not of the command language is a server in this image.
func (i Image) serves(command string) bool {
	return i.ServeUnknown || !i.OnlyKnown && slices.Contains(knownImage(i.Name).programs, path.Base(command))
}
