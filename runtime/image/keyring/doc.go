// Package keyring finds the registry credentials for an image in pull secrets, as a kubelet's credentialprovider.DockerKeyring
// and parsers.ParseImageName do. It pulls nothing, and needs neither a runtime nor gRPC.
//
//	k, err := keyring.New(secrets)
//	for _, c := range k.Lookup("registry.example.com/team/app:v1") {
//		username, password := c.Login()
//		// try to pull with it
//	}
//
// The caller passes the secrets that the pod may use, in its spec's order: those in spec.imagePullSecrets, then its service
// account's. New reads the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, in the encodings that tools write,
// and ignores other secret types. It neither keeps nor modifies them.
//
// Lookup returns the credentials in a kubelet's order: a repository before a registry, a registry before a wildcard, and equal
// ones as the secrets have them. Each login is returned once.
//
// No credential is in an error, and nothing that prints a Keyring or Credentials prints a login. A runtime may repeat a login in
// a pull's error: see [Credentials.Redact].
package keyring

//	keyring.go      the secrets, and the order of their credentials
//	credentials.go  a login that nothing prints
//	name.go         names of images, and patterns that match them
