// Command results writes a file of docs/results from the JSON reports of ginkgo:
//
//	go run ./e2e/results ABOUT AGENT=REPORT[,REPORT...]... > ../../docs/results/SUITE.tsv
//
// ABOUT is a line about the suite, with versions and commits; the command adds the last report's date. The file has a line
// for each test that ran with any agent: its name, and a column with the result for each agent. If an agent has several
// reports of a test, the last one counts. With one agent a column has the seconds of each test. Tests that a filter left out
// are omitted.
package main
