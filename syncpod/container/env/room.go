package env

import "fmt"

const (
	// maxRead limits the bytes that one environment reads: each ConfigMap and Secret that it names, each use by an envFrom,
	// and each value. The resulting variables are limited to 2 MiB, but a pod may name 80,000 objects with 1 MiB, which are in
	// memory at the same time, or replace the same variables arbitrarily often.
	maxRead = 32 << 20
	// perKey is added to each key's bytes, because a short key takes time, too.
	perKey = 64
)

// spend counts bytes against maxRead.
func (r *resolver) spend(n int) error {
	if n > r.room {
		return fmt.Errorf("the environment reads more than %d bytes of objects and values", maxRead)
	}
	r.room -= n
	return nil
}

// bytesOf returns the size that a ConfigMap's or Secret's data counts as.
func bytesOf[V string | []byte](data map[string]V) (n int) {
	for key, value := range data {
		n += len(key) + len(value) + perKey
	}
	return n
}
