package serve

import "net/netip"

const (
	// maxStrangers and maxStrangersOfAddress limit the open connections from peers that are not admitted yet,
	// in total and from one address.
	maxStrangers, maxStrangersOfAddress = 128, 16
	// maxAsking and maxAskingOfAddress limit their concurrent requests, in total and from one address.
	maxAsking, maxAskingOfAddress = 64, 8
	// maxVerified and maxVerifiedOfUser limit the concurrent requests that have a verified certificate and
	// are not admitted yet, in total and from one user.
	maxVerified, maxVerifiedOfUser = 128, 32
)

// strangers holds connections or requests from peers that are not admitted, by the key
// of the limits: the address, or the user of a verified certificate. It only decides which one to drop. The
// caller holds a lock.
type strangers[K, T comparable] struct {
	// total limits all entries, and perKey those with one key.
	total, perKey int
	// spares reports whether other items with the key are dropped before this one. Optional.
	spares func(T) bool

	byKey    map[K][]entry[T] // the oldest first
	count    int
	sequence uint64
}

// An entry is one stranger. The older of two has the smaller number.
type entry[T comparable] struct {
	item   T
	number uint64
}

// add adds an item. If that exceeds a limit, add removes another item and returns it.
func (s *strangers[K, T]) add(key K, one T) (victim T, full bool) {
	victim, from, full := s.victim(key)
	if full {
		s.remove(from, victim)
	}
	if s.byKey == nil {
		s.byKey = map[K][]entry[T]{}
	}
	s.sequence++
	s.byKey[key] = append(s.byKey[key], entry[T]{one, s.sequence})
	s.count++
	return victim, full
}

// victim returns the item to drop before another one with the key may be added, if a limit is reached: the
// oldest item with that key, or of the key with the most items. It returns a spared one only if all are
// spared.
func (s *strangers[K, T]) victim(key K) (victim T, from K, full bool) {
	from, full = s.crowded(key)
	if !full {
		return victim, from, false
	}
	all := s.byKey[from]
	for _, e := range all {
		if s.spares == nil || !s.spares(e.item) {
			return e.item, from, true
		}
	}
	return all[0].item, from, true
}

// crowded returns the key that must drop an item before another one with the given key may be added. If several
// keys have equally many, it is the one with the oldest entry, so that no key is at a disadvantage because of
// its value.
func (s *strangers[K, T]) crowded(key K) (from K, full bool) {
	if len(s.byKey[key]) >= s.perKey {
		return key, true
	}
	if s.count < s.total {
		return key, false
	}
	most, oldest := 0, uint64(0)
	for other, all := range s.byKey {
		if len(all) > most || len(all) == most && all[0].number < oldest {
			from, most, oldest = other, len(all), all[0].number
		}
	}
	return from, true
}

// remove removes an item, and reports whether it was present.
func (s *strangers[K, T]) remove(key K, one T) bool {
	all := s.byKey[key]
	for i, other := range all {
		if other.item != one {
			continue
		}
		all = append(all[:i], all[i+1:]...)
		s.count--
		if s.byKey[key] = all; len(all) == 0 {
			delete(s.byKey, key)
		}
		return true
	}
	return false
}

// addressPrefix returns the limits' key for an address: the IPv4 address itself, or the /64 of an IPv6
// address, because one machine may use the whole /64.
func addressPrefix(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // fails only for the zero address, whose prefix is zero
	return p
}
