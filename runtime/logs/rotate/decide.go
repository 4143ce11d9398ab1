package rotate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podsync/podsync/runtime/logs"
)

// Policy determines when a log is rotated, and how many files are kept.
type Policy = logs.RotationPolicy

func maxSize(p Policy) int64 { return cmp.Or(p.MaxSize, 10<<20) }
func maxFiles(p Policy) int  { return cmp.Or(p.MaxFiles, 5) }

// A File is a file in a log's directory.
type File struct {
	Name string
	// Size is in bytes.
	Size int64
	// Regular is false for a directory, a link or a special file.
	Regular bool
	// InProgress means that the caller has compressed a part and will resume.
	InProgress bool
}

// Action is what a Step does.
type Action string

// The step kinds.
const (
	// Remove deletes a file.
	Remove Action = "remove"
	// Compress replaces a file with a compressed one that has .gz appended to its name.
	Compress Action = "compress"
	// Rename renames a file.
	Rename Action = "rename"
	// Reopen asks the runtime to write to a new file with that name.
	Reopen Action = "reopen"
)

// Reason is the reason for a Step.
type Reason string

// Step reasons.
const (
	// Unfinished: an interrupted compression, which will not be resumed.
	Unfinished Reason = "its compression was interrupted, and is not resumed"
	// Doubled: a compressed file for the same part exists.
	Doubled Reason = "a compressed file of it exists"
	// Excess: MaxFiles newer files exist.
	Excess Reason = "there are enough newer ones"
	// Rotated: the file is no longer written to.
	Rotated Reason = "it was rotated"
	// Full: the log has reached MaxSize.
	Full Reason = "it is full"
	// Missing: a running container's log does not exist.
	Missing Reason = "it does not exist"
)

// A Step is one operation on a file.
type Step struct {
	Action Action
	File   string
	// To is the new name, empty if the file keeps its name.
	To     string
	Reason Reason
}

// String describes the step.
func (s Step) String() string {
	if s.To == "" {
		return fmt.Sprintf("%s %s: %s", s.Action, s.File, s.Reason)
	}
	return fmt.Sprintf("%s %s to %s: %s", s.Action, s.File, s.To, s.Reason)
}

const (
	// stampFormat is the time format in a rotated file's name.
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	// unfinished is a file's suffix while it is being compressed.
	unfinished = compressed + ".tmp"
)

// Decide returns the steps for a running container's log, in the order in which to carry them out:
// none if the log is not full and no earlier rotation is incomplete. Compressions come last,
// because they may take long. Decide ignores other logs' files. It returns an error, and no steps,
// if a log file is not a regular file. now determines a rotated file's name, in its own time zone.
func Decide(log string, files []File, p Policy, now time.Time) ([]Step, error) {
	f, err := filesOf(log, files)
	if err != nil {
		return nil, err
	}
	var rotation []Step
	old := f.stamps[:max(0, len(f.stamps)-1)] // the newest stays uncompressed
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

// compress returns steps for the parts with these times that are not compressed.
func (f *logFiles) compress(stamps []string) []Step {
	var steps []Step
	for _, s := range stamps {
		if name := f.parts[s]; !strings.HasSuffix(name, compressed) {
			steps = append(steps, Step{Action: Compress, File: name, To: name + compressed, Reason: Rotated})
		}
	}
	return steps
}

// logFiles are one log's files.
type logFiles struct {
	current *File
	// parts are the rotated files, by the time in their names; stamps are these times, sorted.
	parts  map[string]string
	stamps []string
	// doubled files can be removed, and unfinished ones unless they are in progress.
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

// stampOf returns the time in a file's name after the log's name, or "".
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

// add adds a rotated file. Both the file and its compressed version may exist.
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

// tidy returns steps that remove an interrupted compression's files, unless a given
// compression resumes it.
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

// next returns the time for the next file's name: now, or later than the newest existing one.
func (f *logFiles) next(now time.Time) string {
	stamp := now.Format(stampFormat)
	if len(f.stamps) == 0 || f.stamps[len(f.stamps)-1] < stamp {
		return stamp
	}
	last, _ := time.Parse(stampFormat, f.stamps[len(f.stamps)-1]) // stampOf has checked it
	return last.Add(time.Second).Format(stampFormat)
}

const (
	// usualGrowth is the growth in bytes a second that each log is expected to reach at any time.
	usualGrowth = 128 << 10
	// maxLook is the longest time until a log is looked at again. A log that has never grown may begin to.
	maxLook = time.Minute
)

// growth is how a log has grown between two looks at its size. It includes the log's rotations, after which the size is
// smaller.
type growth struct {
	size    int64
	at      time.Time
	fastest float64 // bytes a second
}

// after returns the growth with one more look.
func (g growth) after(size int64, now time.Time) growth {
	grown := size
	if size >= g.size {
		grown -= g.size
	}
	if !g.at.IsZero() {
		g.fastest = max(g.fastest, float64(grown)/max(now.Sub(g.at).Seconds(), 1))
	}
	g.size, g.at = size, now
	return g
}

// untilFull returns the time in which the log cannot become full if it grows twice as fast as ever.
func (g growth) untilFull(limit int64) time.Duration {
	if g.size >= limit {
		return 0
	}
	seconds := float64(limit-g.size) / max(2*g.fastest, usualGrowth)
	return time.Duration(min(seconds, maxLook.Seconds()) * float64(time.Second))
}
