package podfile

// parallel is the number of files that are read or written at a time: each of them takes a thread of the process, and the
// kernel changes the names in one directory one at a time.
const parallel = 4

// Turns limit how many files are read or written at a time, however many pods there are. Nil Turns have no limit.
type Turns chan struct{}

// NewTurns returns Turns to be shared by all operations in a directory.
func NewTurns() Turns { return make(Turns, parallel) }

// Take waits for a turn. The caller must call release.
func (t Turns) Take() (release func()) {
	if t == nil {
		return func() {}
	}
	t <- struct{}{}
	return func() { <-t }
}
