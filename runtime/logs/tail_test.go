package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// countingAt counts the bytes that are read from a text.
type countingAt struct {
	*strings.Reader
	read int64
}

func (c *countingAt) ReadAt(b []byte, at int64) (int, error) {
	c.read += int64(len(b))
	return c.Reader.ReadAt(b, at)
}

func TestTailReadsNoMoreThanTheTail(t *testing.T) {
	line := "2026-01-02T03:04:05Z stdout F " + strings.Repeat("x", 70) + "\n"
	text := strings.Repeat(line, 1_000_000)
	for _, lines := range []int64{0, 1, 10, 10_000} {
		r := &countingAt{Reader: strings.NewReader(text)}
		start, whole, err := tailStart(r, int64(len(text)), &counter{wanted: [2]bool{true, true}, want: lines})
		if err != nil || !whole || start != int64(len(text))-lines*int64(len(line)) {
			t.Errorf("%d lines begin at %d of %d, %t, %v", lines, start, len(text), whole, err)
		}
		if most := (lines*int64(len(line)) + tailBlock) * 11 / 10; r.read > most {
			t.Errorf("%d lines: %d bytes were read, want at most %d", lines, r.read, most)
		}
	}
}

func TestTailOfAFileThatShrinks(t *testing.T) {
	_, _, err := tailStart(strings.NewReader("short"), 100, &counter{want: 1})
	if !errors.Is(err, ErrTruncated) {
		t.Error(err)
	}
}

// FuzzRead compares the output for any log with the output of the simple model. The log is in one file, or
// was rotated at any place, and compressed or not.
func FuzzRead(f *testing.F) {
	log := "2026-01-02T03:04:05Z stdout F one\n2026-01-02T03:04:06Z stderr P tw\n2026-01-02T03:04:06Z stdout F x\n2026-01-02T03:04:07Z stderr F o\n"
	f.Add([]byte(log), uint16(40), true, int64(2), int64(9), uint8(0), false)
	f.Add([]byte(log), uint16(0), false, int64(-1), int64(-1), uint8(1), true)
	f.Add([]byte(log[:len(log)-9]+"\nrubbish\n\n"), uint16(70), false, int64(1), int64(0), uint8(2), true)
	// A compressed file ends with an incomplete line of one stream, and the tail is of the other stream.
	f.Add([]byte(log[:99]+"rubbish\n"), uint16(103), true, int64(1), int64(0), uint8(0), true)
	f.Add([]byte("\x00\n"+strings.Repeat(log, 30)), uint16(2000), true, int64(70), int64(-1), uint8(0), false)
	f.Fuzz(func(t *testing.T, log []byte, cut uint16, gz bool, tail, limit int64, stream uint8, stamps bool) {
		o := &v1.PodLogOptions{Timestamps: stamps, Stream: new([]string{v1.LogStreamAll, v1.LogStreamStdout, v1.LogStreamStderr}[stream%3])}
		if tail >= 0 {
			o.TailLines = &tail
		}
		if limit > 0 {
			o.LimitBytes = &limit
		}
		compare(t, log, int(cut), gz, o)
	})
}

// TestReadLikeTheModel does the same with logs that are larger than the reader's buffers, and with short
// logs, in which a stream often has no entry in one of the files.
func TestReadLikeTheModel(t *testing.T) {
	for seed := range uint64(360) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		entries := 100
		if seed >= 60 {
			entries = 1 + rnd.IntN(8)
		}
		log := randomLog(rnd, entries)
		o := &v1.PodLogOptions{Timestamps: rnd.IntN(2) == 0, TailLines: new(rnd.Int64N(int64(entries + 10)))}
		compare(t, log, rnd.IntN(len(log)), rnd.IntN(2) == 0, o)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomLog returns a log with some long entries, and some lines that are not entries.
func randomLog(rnd *rand.Rand, entries int) (log []byte) {
	for range entries {
		size := rnd.IntN(200)
		if rnd.IntN(5) == 0 {
			size = rnd.IntN(3 * tailBlock)
		}
		head := [...]string{"stdout F", "stdout F", "stdout P", "stderr F", "stderr P", "nowhere"}[rnd.IntN(6)]
		log = fmt.Appendf(log, "2026-01-02T03:04:05Z %s %s\n", head, strings.Repeat("x", size))
	}
	return log[:len(log)-rnd.IntN(2)]
}

// compare compares Read with the model for a log that was rotated at offset cut.
func compare(t *testing.T, log []byte, cut int, gz bool, o *v1.PodLogOptions) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	rotateAt(t, path, log, cut, gz)
	var got bytes.Buffer
	var r Reader
	err := r.Read(t.Context(), Log{Path: path}, o, &got, &got)
	var damaged *DamagedError
	if err != nil && !errors.As(err, &damaged) {
		t.Fatal(err)
	}
	if want := printed(log, o, time.Now()); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%+v of %.2000q cut at %d:\n%.2000q, want\n%.2000q", o, log, cut, got.Bytes(), want)
	}
}

// rotateAt writes a log to two files. The first one ends at the end of a line.
func rotateAt(t *testing.T, path string, log []byte, cut int, gz bool) {
	t.Helper()
	at := bytes.LastIndexByte(log[:min(cut, len(log))], '\n') + 1
	if at > 0 && gz {
		writeCompressed(t, path+".20260102-000001.gz", log[:at])
	} else if at > 0 {
		writeFile(t, path+".20260102-000001", log[:at])
	}
	writeFile(t, path, log[at:])
}

func TestScannerCutsLongLines(t *testing.T) {
	long := strings.Repeat("x", maxPiece*2+7)
	s := newScanner(shortReads{strings.NewReader("a\n" + long + "\nb\nrest")}, 5)
	var got []string
	err := s.each(func(p piece) error {
		got = append(got, strings.Repeat("(", btoi(p.begins))+string(p.text)+strings.Repeat(")", btoi(p.ends)))
		return nil
	})
	want := []string{"(a)", "(" + long[:maxPiece], long[:maxPiece], long[:7] + ")", "(b)"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d pieces, %v, want %v and no error", len(got), err, want)
	}
	if p, ok := s.rest(); !ok || string(p.text) != "rest" || !p.begins || p.ends || p.offset != int64(5+2+len(long)+1+2) {
		t.Errorf("%+v, %t, want the text %q that begins a line without its end, at offset %v", p, ok, "rest", int64(5+2+len(long)+1+2))
	}
	if s.read() != int64(5+2+len(long)+1+2+4) {
		t.Errorf("%d bytes read", s.read())
	}
}

// shortReads reads at most 3,000 bytes at a time.
type shortReads struct{ r io.Reader }

func (r shortReads) Read(b []byte) (int, error) { return r.r.Read(b[:min(len(b), 3000)]) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, text, 0o600))
}

// A part that is compressed while the parts are listed is in the list. Otherwise a reader would miss
// its lines, and a follower would print other lines twice.
func TestPartIsListedWhileItIsCompressed(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	plain := filepath.Join(dir, "0.log.20260102-000001")
	writeFile(t, plain, nil)
	done := make(chan struct{})
	var renaming sync.WaitGroup
	renaming.Go(func() {
		for from, to := plain, plain+compressed; ; from, to = to, from {
			select {
			case <-done:
				return
			default:
			}
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3000 {
		if parts, err := rotated(root, "0.log"); err != nil || len(parts) != 1 {
			t.Errorf("parts %v, %v, want one", parts, err)
			break
		}
	}
	close(done)
	renaming.Wait()
}

// The search for the beginning of a tail ends with its context, whatever the size of the files.
func TestTailEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil || w.Close() != nil {
		t.Fatal("the test's file cannot be compressed")
	}
	for name, content := range map[string][]byte{"plain": bytes.Repeat([]byte("x\n"), 1<<10), "packed" + compressed: packed.Bytes()} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &reading{root: root, log: "plain", printer: &printer{window: window{tail: 5, wanted: [2]bool{true, true}}}}
	if _, _, err := r.wantedParts(ctx, nil, []part{{name: "packed"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("the tail of a compressed part: %v", err)
	}
	if _, _, err := (part{name: "plain"}).tailStart(ctx, root, &counter{want: 5}); !errors.Is(err, context.Canceled) {
		t.Errorf("the tail of a part: %v", err)
	}
	if _, err := (part{name: "packed"}).open(ctx, root, 1<<19); !errors.Is(err, context.Canceled) {
		t.Errorf("a compressed part from its middle on: %v", err)
	}
}
