// Package foreign makes others' texts harmless: those from a runtime, a registry, an image, a plugin, a container
// or a peer. Such a text has any length and any characters. Whoever receives one bounds it before it enters an
// error, a status, an event, a log line or a page:
//
//	return fmt.Errorf("driver %s: %w", name, foreign.Error(err))
//
// A text that is short and has only printable characters stays the same text, byte for byte.
//
// The package is pure: it has no clock, logger or I/O, and it depends only on the standard library.
package foreign
