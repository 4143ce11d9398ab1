// Package upgrade holds the files that an agent keeps below its root to the promise of
// VERSIONING.md: what an earlier release has written is read, and nothing of it is lost.
//
// testdata has such files, a directory for each release that has changed them, made with
// every field that there was. The tests of package memory read the records among them. They do not change once that is released: a field that comes
// is a directory more, and one that is renamed, or means something else, fails the tests.
package upgrade
