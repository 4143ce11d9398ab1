// Package credentialprovider gets the credentials of image registries from plugins: the programs that a kubelet starts for
// ECR, GCR, ACR and other registries (KEP-2133). A plugin may request tokens of service accounts (KEP-4412). An agent
// imports it if its registries need short-lived credentials.
//
// A [Provider] is the PullSecrets of a syncpod.Objects. For each image of a pod it runs the plugins whose matchImages match:
//
//	provider, err := credentialprovider.New(credentialprovider.Config{
//		File: "/etc/kubernetes/credential-providers.yaml", BinDir: "/usr/libexec/kubernetes/credential-providers",
//		Secrets: secrets, // those that pods name
//	})
//	...
//	syncpod.Objects{PullSecrets: provider}
//
// A caller that pulls an image without a pod gets its credentials from ImageSecrets:
//
//	secrets, err := provider.ImageSecrets(ctx, "123.dkr.ecr.eu-west-1.amazonaws.com/app:v1")
//	ring, err := keyring.New(secrets)
//
// In a kubelet this is package credentialprovider/plugin.
//
// # What the caller provides
//
// The file and the folder of a kubelet's flags, and for plugins with tokenAttributes a source of tokens and of service accounts.
// The pod's namespace, name, UID, images and serviceAccountName count; no default of the API is needed. Each image name that a
// plugin must match is used as it stands in the pod. The returned secrets belong to the caller, and keyring.New reads them.
//
// # What it guarantees
//
// One run of a plugin serves all callers that wait for the same credentials, and its answer is kept as long as the plugin allows.
// A call ends with its context. If a plugin fails, the other secrets are returned with an error that names the plugin, and
// contains nothing that it has printed. All methods may be called concurrently.
//
// A plugin is a program that the machine's administrator has installed. It runs with the agent's rights. Its output and
// its run time are limited, and its path must not lead out of BinDir. Its output is never logged: the credentials in it
// are only in the returned secrets, and in memory for as long as the plugin allows.
package credentialprovider

// The files:
//
//	config.go    the configuration, and checks of all its fields
//	plugin.go    one run of a plugin
//	cache.go     the credentials that plugins have returned, until they expire
//	execute.go   the program of a plugin: its output, its time limit, and its end
//	group_*.go   the processes of a plugin, which end with it
//	token.go     the tokens of service accounts that plugins have received
//	account.go   the facts about a service account that a plugin receives
//	provider.go  the Provider
