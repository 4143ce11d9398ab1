package poddir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
)

const (
	hostsPath = "/etc/hosts"
	hostsFile = "etc-hosts"
	hostsMode = 0o644
	// maxNodeHosts is the maximum size of the node's own file, in bytes. Lists of blocked hosts are the longest files.
	maxNodeHosts = 16 << 20
)

// hostsMount writes the pod's hosts file and mounts it, unless the container must not get it.
func (d *Dirs) hostsMount(root *os.Root, req container.MountRequest) (*runtimeapi.Mount, error) {
	pod := req.Pod
	if len(req.PodIPs) == 0 && !pod.Spec.HostNetwork || mountsAt(req.Container, hostsPath) {
		return nil, nil
	}
	text, err := d.hosts(pod, req.PodIPs)
	if err != nil {
		return nil, fmt.Errorf("%s of pod %s/%s: %w", hostsPath, pod.Namespace, pod.Name, err)
	}
	if err := hostfs.Element("container name", req.Container.Name); err != nil {
		return nil, err
	}
	own := path.Join(containersDir, req.Container.Name, hostsFile)
	if err := root.MkdirAll(path.Dir(own), dirMode); err != nil {
		return nil, err
	}
	// Containers are created concurrently, but only one with a given name at a time.
	if err := share(root, "."+hostsFile+"-"+req.Container.Name, own, text); err != nil {
		return nil, err
	}
	return managed(hostsPath, filepath.Join(root.Name(), filepath.FromSlash(own))), nil
}

// managed returns the mount of a file that the agent manages. The container may write to it; on a node with SELinux
// that requires another label.
func managed(containerPath, hostPath string) *runtimeapi.Mount {
	return &runtimeapi.Mount{ContainerPath: containerPath, HostPath: hostPath, SelinuxRelabel: true}
}

// mountsAt reports whether the container mounts a volume at that path.
func mountsAt(c *v1.Container, at string) bool {
	for i := range c.VolumeMounts {
		if path.Clean(c.VolumeMounts[i].MountPath) == at {
			return true
		}
	}
	return false
}

func (d *Dirs) hosts(pod *v1.Pod, ips []string) ([]byte, error) {
	if pod.Spec.HostNetwork {
		node, err := hostfs.ReadPath(d.config.NodeHosts, maxNodeHosts)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the node's file: %w", err)
		}
		return nodeHosts(node, pod.Spec.HostAliases), nil
	}
	name, err := sandbox.GeneratePodHostname(pod, d.config.ClusterDomain)
	if err != nil {
		return nil, err
	}
	return podHosts(name, ips, pod.Spec.HostAliases), nil
}

// The first line in the file names the component that manages it. Tools match this
// text.
const (
	managedHosts     = "# Kubernetes-managed hosts file.\n"
	managedNodeHosts = "# Kubernetes-managed hosts file (host network).\n"
	aliasesHeading   = "\n# Entries added by HostAliases.\n"
)

const loopbackHosts = "127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"fe00::0\tip6-localnet\n" +
	"fe00::0\tip6-mcastprefix\n" +
	"fe00::1\tip6-allnodes\n" +
	"fe00::2\tip6-allrouters\n"

// podHosts returns the file of a pod with its own network.
func podHosts(name sandbox.Hostname, ips []string, aliases []v1.HostAlias) []byte {
	var text bytes.Buffer
	text.WriteString(managedHosts + loopbackHosts)
	names := name.Host
	if name.Domain != "" {
		names = name.FQDN() + "\t" + name.Host
	}
	for _, ip := range ips {
		text.WriteString(ip + "\t" + names + "\n")
	}
	writeAliases(&text, aliases)
	return text.Bytes()
}

// nodeHosts returns a pod's file on the node's network.
func nodeHosts(node []byte, aliases []v1.HostAlias) []byte {
	var text bytes.Buffer
	text.WriteString(managedNodeHosts)
	text.Write(node)
	if len(node) > 0 && node[len(node)-1] != '\n' {
		text.WriteByte('\n')
	}
	writeAliases(&text, aliases)
	return text.Bytes()
}

func writeAliases(text *bytes.Buffer, aliases []v1.HostAlias) {
	if len(aliases) == 0 {
		return
	}
	text.WriteString(aliasesHeading)
	for _, a := range aliases {
		text.WriteString(a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n")
	}
}

// share makes own, a container's own name, another name of the pod's hosts file. If the content has changed, share
// replaces the hosts file first. No other function uses means and own.
//
// When the hosts file is replaced, running containers keep the file that they have mounted, and can write to it. Because
// such files have their own names, they count as storage of the pod, and are removed with it. The next instance of a
// container takes over the name: a pod has at most one such file for each container.
func share(root *os.Root, means, own string, content []byte) error {
	if err := root.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Link fails if another container's start replaces the file in this moment.
	if has(root, hostsFile, content) && root.Link(hostsFile, own) == nil {
		return nil
	}
	if err := root.WriteFile(means, content, hostsMode); err != nil {
		return err
	}
	if err := root.Chmod(means, hostsMode); err != nil { // whatever the process's umask
		return err
	}
	if err := root.Link(means, own); err != nil {
		return err
	}
	return root.Rename(means, hostsFile)
}

// has reports whether the file has that content. A container may have written to the file and made it large, so a
// file that is larger than content is not read.
func has(root *os.Root, name string, content []byte) bool {
	old, err := hostfs.Read(root, name, int64(len(content)))
	return err == nil && bytes.Equal(old, content)
}
