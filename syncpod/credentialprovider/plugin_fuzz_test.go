package credentialprovider

import "testing"

// FuzzResponse checks that any output of a plugin is rejected, or has a valid cache key type and a bounded number of
// credentials.
func FuzzResponse(f *testing.F) {
	const head = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":`
	for _, text := range []string{"", "{}", "[]", head + `"Image","auth":{"a.io":{"username":"u","password":"p"}}}`, head + `"Global","cacheDuration":"1h"}`, head + `"Some"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text, apiVersions[0])
		if err != nil {
			return
		}
		if r.CacheKeyType != perImage && r.CacheKeyType != perRegistry && r.CacheKeyType != perPlugin || len(r.Auth) > maxAuths {
			t.Errorf("%q is accepted", text)
		}
		if _, err := secretOf("p", "r.io/a", r.Auth); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
