// Package architecture holds the module to its shape: which package may import
// which, what pure code must not reach for, what stands at the top of the
// repository, and how much the library brings into a program that uses it. It
// has tests only. Each rule carries its reason and prints it when it is broken.
//
// A new package needs an entry in the table of rooms; a change of the shape is
// a change of these tables, made and reviewed together with its reason.
package architecture
