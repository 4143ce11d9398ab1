// Package credentialprovider gets the credentials of image registries from plugins: the programs that a kubelet starts for
// ECR, GCR, ACR and other registries (KEP-2133), with tokens of service accounts if a plugin asks for them (KEP-4412).
//
// A [Provider] is the PullSecrets of a syncpod.Objects. Of each image of a pod it asks the plugins whose matchImages fit:
//
//	provider, err := credentialprovider.New(credentialprovider.Config{
//		File: "/etc/kubernetes/credential-providers.yaml", BinDir: "/usr/libexec/kubernetes/credential-providers",
//		Secrets: secrets, // those that pods name
//	})
//	...
//	syncpod.Objects{PullSecrets: provider}
//
// A plugin is a program of the machine's administrator, and runs with the rights of the agent. Its output is bounded, its
// time too, and its path may not lead out of BinDir. What it prints is never logged: its credentials are in the
// secrets that are returned, and in memory for as long as the plugin says.
//
//	config.go    the configuration, of which each field is checked
//	plugin.go    one run of a plugin
//	cache.go     the credentials that plugins have returned, and how long they hold
//	execute.go   the program of a plugin: its output, its time, and its end
//	group_*.go   the processes of a plugin, which end with it
//	token.go     the tokens of service accounts that plugins have got
//	account.go   what a plugin gets to know about a service account
//	provider.go  the Provider
package credentialprovider
