package rotate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/logs"
)

// Policy says when a log is rotated, and how many files of it are kept.
type Policy = logs.RotationPolicy

func maxSize(p Policy) int64 { return cmp.Or(p.MaxSize, 10<<20) }
func maxFiles(p Policy) int  { return cmp.Or(p.MaxFiles, 5) }

// A File is one in the directory of a log.
type File struct {
	Name string
	// Size is in bytes.
	Size int64
	// Regular: it is neither a directory nor a link or anything else.
	Regular bool
	// InProgress: it is compressed in part by the caller, who continues.
	InProgress bool
}

// Action is what a Step does.
type Action string

// What is done with files.
const (
	// Remove deletes a file.
	Remove Action = "remove"
	// Compress makes of a file one with .gz at the end of its name.
	Compress Action = "compress"
	// Rename gives a file another name.
	Rename Action = "rename"
	// Reopen asks the runtime to write to a new file of that name.
	Reopen Action = "reopen"
)

// Reason is why there is a Step.
type Reason string

// The reasons of steps.
const (
	// Unfinished: the file was to be a compressed one, and is not continued.
	Unfinished Reason = "it was compressed in part, and is not continued"
	// Doubled: there is a compressed file of the same.
	Doubled Reason = "it was compressed, and is there a second time"
	// Excess: there are as many newer files as may be.
	Excess Reason = "there are enough newer ones"
	// Rotated: it is not written to.
	Rotated Reason = "it was rotated away"
	// Full: the log has reached its size.
	Full Reason = "it is full"
	// Missing: the log of a container that runs is not there.
	Missing Reason = "it is not there"
)

// A Step is one thing to do with a file.
type Step struct {
	Action Action
	File   string
	// To is the name that the file gets, if it gets another.
	To     string
	Reason Reason
}

// String is the step in words.
func (s Step) String() string {
	if s.To == "" {
		return fmt.Sprintf("%s %s: %s", s.Action, s.File, s.Reason)
	}
	return fmt.Sprintf("%s %s to %s: %s", s.Action, s.File, s.To, s.Reason)
}

const (
	// stampFormat is the time of a rotation in the name of what was rotated away.
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	// unfinished ends the name of a file that is to become a compressed one.
	unfinished = compressed + ".tmp"
)

// Decide says what is to be done with the files of a log of that name, of a container that
// runs, in the order in which it is to be done: nothing, if it is not full and nothing was
// left half done. Compressions come last, as they may take long. Files that are not of the log are passed over. The error names a file of
// the log that is not a regular one; nothing is to be done then. now gives a rotation its
// name, in the time zone that it has.
func Decide(log string, files []File, p Policy, now time.Time) ([]Step, error) {
	f, err := filesOf(log, files)
	if err != nil {
		return nil, err
	}
	var rotation []Step
	old := f.stamps[:max(0, len(f.stamps)-1)] // all but the newest are compressed
	switch {
	case f.current == nil:
		rotation = []Step{{Action: Reopen, File: log, Reason: Missing}}
	case f.current.Size >= maxSize(p):
		excess := max(0, len(f.stamps)-(maxFiles(p)-2))
		for _, s := range f.stamps[:excess] {
			rotation = append(rotation, Step{Action: Remove, File: f.parts[s], Reason: Excess})
		}
		old = f.stamps[excess:]
		rotation = append(rotation,
			Step{Action: Rename, File: log, To: log + "." + f.next(now), Reason: Full},
			Step{Action: Reopen, File: log, Reason: Full})
	}
	compressions := f.compress(old)
	return slices.Concat(f.tidy(compressions), rotation, compressions), nil
}

// compress compresses parts of these times that are not.
func (f *logFiles) compress(stamps []string) []Step {
	var steps []Step
	for _, s := range stamps {
		if name := f.parts[s]; !strings.HasSuffix(name, compressed) {
			steps = append(steps, Step{Action: Compress, File: name, To: name + compressed, Reason: Rotated})
		}
	}
	return steps
}

// logFiles are the files of one log.
type logFiles struct {
	current *File
	// parts are those that were rotated away, by the time in their names, and stamps
	// these times in order.
	parts  map[string]string
	stamps []string
	// doubled are of no use, and unfinished only if they are in progress.
	doubled, unfinished []string
	inProgress          map[string]bool
}

func filesOf(log string, files []File) (logFiles, error) {
	f := logFiles{parts: map[string]string{}, inProgress: map[string]bool{}}
	for i := range files {
		file := &files[i]
		suffix, ours := strings.CutPrefix(file.Name, log)
		stamp := stampOf(suffix)
		switch {
		case !ours || suffix != "" && stamp == "":
			continue
		case !file.Regular:
			return f, fmt.Errorf("%s is not a regular file", file.Name)
		case suffix == "":
			f.current = file
		case strings.HasSuffix(suffix, unfinished):
			f.unfinished = append(f.unfinished, file.Name)
			f.inProgress[file.Name] = file.InProgress
		default:
			f.add(stamp, file.Name)
		}
	}
	slices.Sort(f.stamps)
	slices.Sort(f.doubled)
	slices.Sort(f.unfinished)
	return f, nil
}

// stampOf returns the time in what a name has after that of its log, "" if there is none.
func stampOf(suffix string) string {
	stamp, ok := strings.CutPrefix(suffix, ".")
	stamp = strings.TrimSuffix(strings.TrimSuffix(stamp, ".tmp"), compressed)
	if _, err := time.Parse(stampFormat, stamp); !ok || err != nil {
		return ""
	}
	if rest := suffix[1+len(stamp):]; rest != "" && rest != compressed && rest != unfinished {
		return ""
	}
	return stamp
}

// add takes a file that was rotated away. Of one that was compressed there may be both.
func (f *logFiles) add(stamp, name string) {
	other, there := f.parts[stamp]
	switch {
	case !there:
		f.stamps = append(f.stamps, stamp)
		f.parts[stamp] = name
	case strings.HasSuffix(name, compressed):
		f.doubled = append(f.doubled, other)
		f.parts[stamp] = name
	default:
		f.doubled = append(f.doubled, name)
	}
}

// tidy removes what an agent has left that ended in the middle, and what is in progress without
// being one of the compressions that follow.
func (f *logFiles) tidy(compressions []Step) []Step {
	var steps []Step
	for _, name := range f.unfinished {
		if f.inProgress[name] && slices.ContainsFunc(compressions, func(s Step) bool { return s.File+unfinished == name }) {
			continue
		}
		steps = append(steps, Step{Action: Remove, File: name, Reason: Unfinished})
	}
	for _, name := range f.doubled {
		steps = append(steps, Step{Action: Remove, File: name, Reason: Doubled})
	}
	return steps
}

// next is the time in the name of the next file: now, or later than in all that there are.
func (f *logFiles) next(now time.Time) string {
	stamp := now.Format(stampFormat)
	if len(f.stamps) == 0 || f.stamps[len(f.stamps)-1] < stamp {
		return stamp
	}
	last, _ := time.Parse(stampFormat, f.stamps[len(f.stamps)-1]) // it is one, see stampOf
	return last.Add(time.Second).Format(stampFormat)
}
