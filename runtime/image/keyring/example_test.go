package keyring_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/image/keyring"
)

// The credentials for one repository come before those for its registry. Printing them shows no login.
func Example() {
	k, err := keyring.New([]v1.Secret{{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{
		"registry.example.com":      {"username": "team", "password": "hunter2"},
		"registry.example.com/shop": {"username": "shop", "password": "hunter3"}}}`)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range k.Lookup("registry.example.com/shop/cart:v1") {
		username, _ := c.Login()
		fmt.Println(username, c)
	}
	// Output:
	// shop [registry credentials]
	// team [registry credentials]
}

func ExampleParseImageName() {
	repository, tag, digest, err := keyring.ParseImageName("nginx:1.29")
	fmt.Printf("%q %q %q %v\n", repository, tag, digest, err)
	// Output: "docker.io/library/nginx" "1.29" "" <nil>
}

func ExampleCredentials_Redact() {
	c := keyring.Of("shop", "hunter3")
	fmt.Println(c.Redact(`GET https://shop:hunter3@registry.example.com/v2/?token=abc : password "hunter3" is wrong`))
	// Output: GET https://[redacted]@registry.example.com/v2/?[redacted] : password "[redacted]" is wrong
}
