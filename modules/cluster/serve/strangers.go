package serve

import "net/netip"

const (
	// maxStrangers is how many connections of peers may be open that were not admitted yet, in
	// total and from one address.
	maxStrangers, maxStrangersOfAddress = 128, 16
	// maxAsking is how many of their requests are answered at a time, in total and from one address.
	maxAsking, maxAskingOfAddress = 64, 8
)

// strangers are the connections of peers that were not admitted yet, by address.
// It decides and does nothing; the caller holds a lock.
type strangers[T comparable] struct {
	byAddress map[netip.Prefix][]T // the oldest first
	count     int
}

// enter adds one. If its address or all together hold too many, it returns the one that has to
// go: the oldest of that address, or of the address with the most.
func (s *strangers[T]) enter(address netip.Prefix, one T) (victim T, full bool) {
	from, full := s.crowded(address)
	if full {
		victim = s.byAddress[from][0]
		s.leave(from, victim)
	}
	if s.byAddress == nil {
		s.byAddress = map[netip.Prefix][]T{}
	}
	s.byAddress[address] = append(s.byAddress[address], one)
	s.count++
	return victim, full
}

// crowded returns the address that has to give way to one more of an address, if any has.
func (s *strangers[T]) crowded(address netip.Prefix) (from netip.Prefix, full bool) {
	if len(s.byAddress[address]) >= maxStrangersOfAddress {
		return address, true
	}
	if s.count < maxStrangers {
		return address, false
	}
	for other, all := range s.byAddress {
		if most := len(s.byAddress[from]); len(all) > most || len(all) == most && other.Addr().Less(from.Addr()) {
			from = other
		}
	}
	return from, true
}

// leave removes one, and reports whether it was there.
func (s *strangers[T]) leave(address netip.Prefix, one T) bool {
	all := s.byAddress[address]
	for i, other := range all {
		if other != one {
			continue
		}
		all = append(all[:i], all[i+1:]...)
		s.count--
		if s.byAddress[address] = all; len(all) == 0 {
			delete(s.byAddress, address)
		}
		return true
	}
	return false
}

// asking counts the requests of strangers that are being answered. The caller holds a lock.
type asking struct {
	byAddress map[netip.Prefix]int
	count     int
}

// enter reports whether one more may be answered, and counts it.
func (a *asking) enter(address netip.Prefix) bool {
	if a.count >= maxAsking || a.byAddress[address] >= maxAskingOfAddress {
		return false
	}
	if a.byAddress == nil {
		a.byAddress = map[netip.Prefix]int{}
	}
	a.byAddress[address]++
	a.count++
	return true
}

func (a *asking) leave(address netip.Prefix) {
	a.count--
	if a.byAddress[address]--; a.byAddress[address] == 0 {
		delete(a.byAddress, address)
	}
}

// neighbourhood is the unit that limits count by: an IPv4 address, or the /64 of an IPv6 address,
// as one machine has all of that.
func neighbourhood(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // fails for the zero address alone, whose prefix is zero
	return p
}
