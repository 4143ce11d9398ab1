// Package reports has the log of public bug reports that were tried on podsync, reports.tsv, and the tests of those
// that no other package tests. Its tests run a whole agent on a runtime in memory, in virtual time.
package reports
