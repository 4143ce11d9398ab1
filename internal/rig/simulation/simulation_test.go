package simulation

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// livesHere is how many seeds are tried where PODSYNC_SIMULATION does not say.
const livesHere = 40

var tellAll = flag.Bool("simulation.stories", false, "print the events of each life, not only of lives that break a rule")

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestLives lives PODSYNC_SIMULATION lives, from the seed PODSYNC_SIMULATION_FROM on,
// and each of them twice if PODSYNC_SIMULATION_TWICE is 1. If PODSYNC_SIMULATION_STOP is
// 1 the first life that breaks a rule is the last one.
func TestLives(t *testing.T) {
	from, lives := number(t, "PODSYNC_SIMULATION_FROM", 0), number(t, "PODSYNC_SIMULATION", livesHere)
	times, stop := 1+int(number(t, "PODSYNC_SIMULATION_TWICE", 0)), number(t, "PODSYNC_SIMULATION_STOP", 0) == 1
	var seeds []uint64
	for seed := from; seed < from+lives; seed++ {
		for range times {
			seeds = append(seeds, seed)
		}
	}
	all := newSummary()
	begin := time.Now()
	for r := range liveAll(t, seeds, *tellAll) {
		all.add(r)
		if len(r.Broken) > 0 || r.Story != nil {
			t.Run(fmt.Sprintf("seed=%d", r.Seed), func(t *testing.T) { report(t, r) })
		}
		if stop && len(r.Broken) > 0 {
			return
		}
	}
	all.print(t, times, time.Since(begin))
}

// report fails with the rules that a life broke, and with where its story is.
func report(t *testing.T, r result) {
	for _, what := range r.Broken {
		t.Error(what)
	}
	dir := os.Getenv("PODSYNC_SIMULATION_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "podsync-simulation")
	}
	file := filepath.Join(dir, fmt.Sprintf("seed-%d.txt", r.Seed))
	if err := writeStory(file, r); err != nil {
		t.Errorf("the history of this life cannot be stored: %v", err)
		return
	}
	t.Logf("the history of this life is in %s", file)
}

func writeStory(file string, r result) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	for _, line := range slices.Concat(r.Broken, []string{""}, r.Story) {
		fmt.Fprintln(f, line)
	}
	return f.Close()
}

// summary is what all lives had together.
type summary struct {
	lives, calls int
	lasted       time.Duration
	met, judged  map[string]int
	// tried counts the lives that put a rule to the test, by the rule's name.
	tried         map[string]int
	digests       map[uint64]string
	again, differ int
}

func newSummary() *summary {
	return &summary{met: map[string]int{}, judged: map[string]int{}, tried: map[string]int{}, digests: map[uint64]string{}}
}

func (s *summary) add(r result) {
	s.lives, s.calls, s.lasted = s.lives+1, s.calls+r.Calls, s.lasted+r.Lasted
	for what, n := range r.Met {
		s.met[what] += n
	}
	for what, n := range r.Judged {
		s.judged[what] += n
		if n > 0 {
			s.tried[what]++
		}
	}
	if before, ok := s.digests[r.Seed]; ok {
		s.again++
		if before != r.Digest {
			s.differ++
		}
	}
	s.digests[r.Seed] = r.Digest
}

const (
	// enough is how many lives put every rule to the test.
	enough = 300
	// oneIn is in how many lives each rule is put to the test at least once, on average.
	oneIn = 20
	// rarest is how many rules are printed that were put to the test in the fewest lives.
	rarest = 5
)

// rarelyTried returns the rules that were put to the test in too few lives: what never
// happens is not tested.
func (s *summary) rarelyTried() (names []string) {
	for _, rule := range rules {
		if s.lives >= enough && s.tried[rule.name]*oneIn < s.lives {
			names = append(names, rule.name)
		}
	}
	return names
}

// byTries returns the names of all rules, those first that the fewest lives put to the test.
func (s *summary) byTries() (names []string) {
	for _, rule := range rules {
		names = append(names, rule.name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return s.tried[a] - s.tried[b] })
	return names
}

// print prints the faults that the lives met, and the rules that they tested.
func (s *summary) print(t *testing.T, times int, took time.Duration) {
	t.Logf("%d simulated lives in %v: %.1f simulated days, %d calls of the runtime", s.lives, took.Round(time.Second/10), s.lasted.Hours()/24, s.calls)
	if times > 1 {
		t.Logf("%d of %d repeated lives differ", s.differ, s.again)
	}
	for _, counts := range []map[string]int{s.met, s.judged} {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			t.Logf("%9d  %s", counts[what], what)
		}
	}
	t.Logf("the rules that apply in the fewest lives:")
	for _, name := range s.byTries()[:rarest] {
		t.Logf("%9d lives, %d times: %s", s.tried[name], s.judged[name], name)
	}
	for _, name := range s.rarelyTried() {
		t.Errorf("%s applies in %d of %d lives, want one in %d", name, s.tried[name], s.lives, oneIn)
	}
}

// A rule that few lives put to the test is an error, however often those do.
func TestRarelyTriedRulesAreFound(t *testing.T) {
	s := newSummary()
	rare := rules[len(rules)-1].name
	for seed := range uint64(enough) {
		r := result{Seed: seed, Judged: map[string]int{}}
		for _, rule := range rules {
			r.Judged[rule.name] = 1
		}
		if r.Judged[rare] = 0; seed < enough/oneIn-1 {
			r.Judged[rare] = 1000
		}
		if got := s.rarelyTried(); len(got) > 0 {
			t.Fatalf("%q were rarely tried in %d lives, which are too few to say", got, s.lives)
		}
		s.add(r)
	}
	if got := s.rarelyTried(); !slices.Equal(got, []string{rare}) || s.byTries()[0] != rare {
		t.Errorf("rarely tried are %q, the first of all is %q, want %q", got, s.byTries()[0], rare)
	}
	s.add(result{Seed: enough, Judged: map[string]int{rare: 1}})
	s.lives-- // one more of the same number
	if got := s.rarelyTried(); len(got) > 0 {
		t.Errorf("%q were rarely tried, want none", got)
	}
}
