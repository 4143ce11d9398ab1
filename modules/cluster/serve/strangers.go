package serve

import "net/netip"

const (
	// maxStrangers is how many connections of peers may be open that were not admitted yet, in
	// total and from one address.
	maxStrangers, maxStrangersOfAddress = 128, 16
	// maxAsking is how many of their requests are answered at a time, in total and from one address.
	maxAsking, maxAskingOfAddress = 64, 8
	// maxVerified is how many requests of peers with a verified certificate are answered at a time
	// that were not admitted yet, in total and of one user.
	maxVerified, maxVerifiedOfUser = 128, 32
)

// strangers holds the connections or requests of peers that are not admitted, by the key of the
// limits: the address, or the user of a verified certificate. It only decides which one to drop.
// The caller holds a lock.
type strangers[K, T comparable] struct {
	// total and each limit the number of all, and of each key.
	total, each int

	byKey   map[K][]entry[T] // the oldest first
	count   int
	entered uint64
}

// An entry is one stranger. The older of two has the smaller number.
type entry[T comparable] struct {
	one    T
	number uint64
}

// enter adds one. If that exceeds a limit, it removes and returns the one to drop.
func (s *strangers[K, T]) enter(key K, one T) (victim T, full bool) {
	victim, from, full := s.next(key)
	if full {
		s.leave(from, victim)
	}
	if s.byKey == nil {
		s.byKey = map[K][]entry[T]{}
	}
	s.entered++
	s.byKey[key] = append(s.byKey[key], entry[T]{one, s.entered})
	s.count++
	return victim, full
}

// next returns the one to drop before another of the key may enter, if a limit is reached: the
// oldest of that key, or of the key with the most.
func (s *strangers[K, T]) next(key K) (victim T, from K, full bool) {
	from, full = s.crowded(key)
	if full {
		victim = s.byKey[from][0].one
	}
	return victim, from, full
}

// crowded returns the key that must drop one before another of the given key may enter. Between
// equal keys it is the one with the oldest entry, so that no key is at a disadvantage because of
// its value.
func (s *strangers[K, T]) crowded(key K) (from K, full bool) {
	if len(s.byKey[key]) >= s.each {
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

// leave removes one, and reports whether it was there.
func (s *strangers[K, T]) leave(key K, one T) bool {
	all := s.byKey[key]
	for i, other := range all {
		if other.one != one {
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

// neighbourhood is the unit that limits count by: an IPv4 address, or the /64 of an IPv6 address,
// as one machine has all of that.
func neighbourhood(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // fails only for the zero address, whose prefix is zero
	return p
}
