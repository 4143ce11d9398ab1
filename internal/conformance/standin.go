package main

// outcome is what comparing one recorded line came to.
type outcome struct {
	name      string // of the recorded case
	deviation string // the rule of a deliberate deviation, "" if there is none
	diff      string // recorded and podsync's answer side by side, "" if they agree
}

func main() {}
