package rotate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// sized are a directory's files by name, with their sizes.
func sized(names ...string) []File {
	var files []File
	for _, name := range names {
		f := File{Name: name, Regular: true}
		if at := strings.IndexByte(name, '='); at >= 0 {
			f.Name = name[:at]
			fmt.Sscan(name[at+1:], &f.Size)
		}
		if strings.HasSuffix(f.Name, "@") {
			f.Name, f.Regular = strings.TrimSuffix(f.Name, "@"), false
		}
		if strings.HasSuffix(f.Name, "+") {
			f.Name, f.InProgress = strings.TrimSuffix(f.Name, "+"), true
		}
		files = append(files, f)
	}
	return files
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		files  []File
		policy Policy
		want   string
	}{
		"small":             {sized("0.log=99"), Policy{MaxSize: 100}, ""},
		"as a kubelet's":    {sized("0.log=10485759"), Policy{}, ""},
		"full":              {sized("0.log=10485760"), Policy{}, "rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full"},
		"empty directory":   {nil, Policy{}, "reopen 0.log: it does not exist"},
		"missing":           {sized("1.log=100", "0.log.20261122-110000"), Policy{MaxSize: 100}, "reopen 0.log: it does not exist"},
		"of other attempts": {sized("0.log=100", "10.log.20261122-110000", "1.log.20261122-110000", "0.logs"), Policy{MaxSize: 100}, "rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full"},
		"of others": {
			sized("0.log=100", "0.log.1", "0.log.tmp", "0.log.gz", "0.log.20261122-110000.bz2", "0.log.20261122-110000.tmp", "0.log.20261322-110000", "x.0.log.20261122-110000"),
			Policy{MaxSize: 100, MaxFiles: 2}, "rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full",
		},
		"two that were rotated": {
			sized("0.log=100", "0.log.20261122-110000.gz", "0.log.20261122-111000"), Policy{MaxSize: 100},
			"rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full; " +
				"compress 0.log.20261122-111000 to 0.log.20261122-111000.gz: it was rotated",
		},
		"as many as may be": {
			sized("0.log=100", "0.log.20261122-080000.gz", "0.log.20261122-090000.gz", "0.log.20261122-100000.gz", "0.log.20261122-110000"), Policy{MaxSize: 100},
			"remove 0.log.20261122-080000.gz: there are enough newer ones; rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full; " +
				"compress 0.log.20261122-110000 to 0.log.20261122-110000.gz: it was rotated",
		},
		"two files": {
			sized("0.log=100", "0.log.20261122-090000.gz", "0.log.20261122-110000"), Policy{MaxSize: 100, MaxFiles: 2},
			"remove 0.log.20261122-090000.gz: there are enough newer ones; remove 0.log.20261122-110000: there are enough newer ones; " +
				"rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full",
		},
		"left half done": {
			sized("0.log=1", "0.log.20261122-090000.gz.tmp", "0.log.20261122-090000", "0.log.20261122-080000", "0.log.20261122-080000.gz"), Policy{MaxSize: 100},
			"remove 0.log.20261122-090000.gz.tmp: its compression was interrupted, and is not resumed; remove 0.log.20261122-080000: a compressed file of it exists",
		},
		"rotated, and not compressed": {
			sized("0.log=1", "0.log.20261122-080000.gz", "0.log.20261122-090000", "0.log.20261122-110000"), Policy{MaxSize: 100},
			"compress 0.log.20261122-090000 to 0.log.20261122-090000.gz: it was rotated",
		},
		"in progress": {
			sized("0.log=1", "0.log.20261122-090000", "0.log.20261122-090000.gz.tmp+", "0.log.20261122-110000"), Policy{MaxSize: 100},
			"compress 0.log.20261122-090000 to 0.log.20261122-090000.gz: it was rotated",
		},
		"in progress, and too many": {
			sized("0.log=100", "0.log.20261122-090000", "0.log.20261122-090000.gz.tmp+"), Policy{MaxSize: 100, MaxFiles: 2},
			"remove 0.log.20261122-090000.gz.tmp: its compression was interrupted, and is not resumed; remove 0.log.20261122-090000: there are enough newer ones; " +
				"rename 0.log to 0.log.20261122-120000: it is full; reopen 0.log: it is full",
		},
		"twice in a second": {
			sized("0.log=100", "0.log.20261122-120000"), Policy{MaxSize: 100},
			"rename 0.log to 0.log.20261122-120001: it is full; reopen 0.log: it is full; compress 0.log.20261122-120000 to 0.log.20261122-120000.gz: it was rotated",
		},
		"the clock goes back": {
			sized("0.log=100", "0.log.20261231-235959.gz"), Policy{MaxSize: 100},
			"rename 0.log to 0.log.20270101-000000: it is full; reopen 0.log: it is full",
		},
		"a link":                 {sized("0.log@"), Policy{}, "error: 0.log is not a regular file"},
		"a pipe, rotated":        {sized("0.log=1", "0.log.20261122-090000@"), Policy{}, "error: 0.log.20261122-090000 is not a regular file"},
		"a directory, half done": {sized("0.log=1", "0.log.20261122-090000.gz.tmp@"), Policy{}, "error: 0.log.20261122-090000.gz.tmp is not a regular file"},
		"a link of others":       {sized("0.log=1", "1.log@", "link@"), Policy{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.files)
			steps, err := Decide("0.log", tc.files, tc.policy, noon)
			var words []string
			for _, s := range steps {
				words = append(words, s.String())
			}
			if err != nil {
				words = append(words, "error: "+err.Error())
			}
			if got := strings.Join(words, "; "); got != tc.want {
				t.Errorf("the steps are\n%s\nwant\n%s", got, tc.want)
			}
			if !slices.Equal(tc.files, before) {
				t.Error("the files were changed")
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for want, p := range map[string]Policy{
		"MaxSize is negative: -1":           {MaxSize: -1},
		"MaxFiles is 1: it must be 2 at le": {MaxFiles: 1},
		"MaxFiles is -3: it must be 2 at l": {MaxFiles: -3},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	must.Do(t, (Policy{MaxSize: 1 << 62, MaxFiles: 1 << 62}).Validate())
}

// A shelf is a directory in memory.
type shelf map[string]int64

func (d shelf) files(r *rand.Rand) []File {
	var files []File
	for name, size := range d {
		files = append(files, File{Name: name, Size: size, Regular: true})
	}
	r.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	return files
}

// parts are the rotated files of 0.log, in order.
func (d shelf) parts() []string {
	var parts []string
	for name := range d {
		if suffix, ok := strings.CutPrefix(name, "0.log"); ok && stampOf(suffix) != "" && !strings.HasSuffix(name, ".tmp") {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	return parts
}

// apply carries out a step, and returns the rule that it breaks.
func (d shelf) apply(s Step) string {
	_, there := d[s.File]
	_, taken := d[s.To]
	switch {
	case !there && s.Action != Reopen:
		return "there is no such file"
	case taken:
		return "it would be written over"
	case s.Action == Remove && s.File == "0.log":
		return "the log would be removed"
	case s.Action == Remove && s.Reason == Excess && strings.TrimSuffix(d.parts()[0], ".gz") != strings.TrimSuffix(s.File, ".gz"):
		return "it is not the oldest"
	case s.Action == Rename && slices.ContainsFunc(d.parts(), func(p string) bool { return p > s.To }):
		return "it would not be the newest"
	case s.Action == Reopen && d["0.log"] > 0:
		return "there is a log"
	}
	switch s.Action {
	case Remove:
		delete(d, s.File)
	case Compress, Rename:
		d[s.To] = d[s.File]
		delete(d, s.File)
	case Reopen:
		d[s.File] = 0
	}
	return ""
}

// For any files: no file is overwritten, only the oldest is removed, the number of files stays within the limit, files of
// other logs stay, and a finished rotation needs no further step.
func TestDecideOnRandomDirectories(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := shelf{}
		for range r.IntN(12) {
			stamp := noon.Add(time.Duration(r.IntN(20)-10) * time.Second).Format(stampFormat)
			d["0.log."+stamp+[]string{"", ".gz", ".gz.tmp"}[r.IntN(3)]] = 1
		}
		if r.IntN(8) > 0 {
			d["0.log"] = int64(r.IntN(3)) * 100
		}
		others := []string{"1.log", "1.log.20261122-120000", "0.log.bak", "0.log.tmp", "0.log.20261122-120000.xz"}
		for _, name := range others {
			d[name] = 1000
		}
		p := Policy{MaxSize: 100, MaxFiles: 2 + r.IntN(5)}
		full := d["0.log"] >= 100
		steps := must.Get(Decide("0.log", d.files(r), p, noon))(t)
		for _, s := range steps {
			if wrong := d.apply(s); wrong != "" {
				t.Fatalf("seed %d: %v: %s, want %q", seed, s, wrong, "")
			}
		}
		for _, name := range others {
			if d[name] != 1000 {
				t.Errorf("seed %d: %s of others was changed", seed, name)
			}
		}
		if n := len(d.parts()) + 1; full && n > p.MaxFiles {
			t.Errorf("seed %d: there are %d files, want at most %d", seed, n, p.MaxFiles)
		}
		if parts := d.parts(); full && (len(parts) == 0 || slices.ContainsFunc(parts[:len(parts)-1], func(p string) bool { return !strings.HasSuffix(p, ".gz") })) {
			t.Errorf("seed %d: after a rotation there are %v", seed, parts)
		}
		if again, err := Decide("0.log", d.files(r), p, noon); err != nil || len(again) > 0 {
			t.Errorf("seed %d: and then %v, %v", seed, again, err)
		}
	}
}

// FuzzDecide takes any names: no panic, and no step that leaves the log's files.
func FuzzDecide(f *testing.F) {
	f.Add("0.log", "0.log.20261122-120000.gz\n0.log\n0.log.20261122-120000", int64(100), 5)
	f.Add("", ".20261122-120000", int64(0), -1)
	f.Fuzz(func(t *testing.T, log, names string, size int64, most int) {
		var files []File
		for _, name := range slices.Compact(slices.Sorted(strings.SplitSeq(names, "\n"))) {
			files = append(files, File{Name: name, Size: size, Regular: true})
		}
		p := Policy{MaxSize: 100, MaxFiles: most}
		if p.Validate() != nil {
			return
		}
		steps := must.Get(Decide(log, files, p, noon))(t)
		for _, s := range steps {
			if !strings.HasPrefix(s.File, log) || s.To != "" && !strings.HasPrefix(s.To, log) {
				t.Errorf("%v is not about %q", s, log)
			}
		}
	})
}

// A log is looked at again before it can be full if it grows twice as fast as ever, and at least once a minute.
func TestUntilFull(t *testing.T) {
	const limit = 10 << 20
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	type look struct {
		after time.Duration
		size  int64
	}
	for name, tc := range map[string]struct {
		looks []look
		limit int64
		want  time.Duration
	}{
		"empty":                          {[]look{{0, 0}}, limit, time.Minute},
		"never grown":                    {[]look{{0, 100}, {time.Hour, 100}}, limit, time.Minute},
		"half full":                      {[]look{{0, limit / 2}}, limit, 40 * time.Second},
		"full":                           {[]look{{0, limit}}, limit, 0},
		"overfull":                       {[]look{{0, 2 * limit}}, limit, 0},
		"small limit":                    {[]look{{0, 0}}, 128 << 10, time.Second},
		"a megabyte a second":            {[]look{{0, 0}, {2 * time.Second, 2 << 20}}, limit, 4 * time.Second},
		"it was fast before":             {[]look{{0, 0}, {2 * time.Second, 2 << 20}, {time.Hour, 2 << 20}}, limit, 4 * time.Second},
		"it was rotated, and grew":       {[]look{{0, limit - 1}, {4 * time.Second, 4 << 20}}, limit, 3 * time.Second},
		"two looks at once":              {[]look{{0, 0}, {0, 1 << 20}}, limit, 4500 * time.Millisecond},
		"the clock was set back an hour": {[]look{{time.Hour, 0}, {0, 1 << 20}}, limit, 4500 * time.Millisecond},
		"a limit without an end":         {[]look{{0, 0}}, 1 << 62, time.Minute},
	} {
		var g growth
		for _, l := range tc.looks {
			g = g.after(l.size, start.Add(l.after))
		}
		if got := g.untilFull(tc.limit); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
