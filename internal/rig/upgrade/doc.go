// Package upgrade tests the promise of VERSIONING.md for the files below an agent's root: an agent reads
// the files of earlier releases, and loses none of their data.
//
// testdata has such files, with every field set, in a directory for each release that has changed them. The
// tests of package memory read the records among them. The files of a release never change: a new field
// needs a new directory, and a field that is renamed or gets another meaning fails the tests.
package upgrade
