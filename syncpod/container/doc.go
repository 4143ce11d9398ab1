// Package container has the settings of a node that all its containers share. They are part of
// syncpod.Config, as Node.Containers.
package container
