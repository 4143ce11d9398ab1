package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Test has the methods of a test that [Run] needs; *testing.T implements it. The package does not import
// testing, so that programs that judge agents do not link it.
type Test[T any] interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Logf(format string, args ...any)
	Skip(args ...any)
	Context() context.Context
	Deadline() (deadline time.Time, ok bool)
	Run(name string, f func(T)) bool
}

const (
	// restVirtual and restReal are how long the agent is observed after all pods have their desired
	// state. In virtual time this is longer than a back-off.
	restVirtual = 7 * time.Minute
	restReal    = 3 * time.Second
)

// Run runs the scenarios with an agent that is started in this process. Each promise has a subtest. The
// subtest fails with the shortest story if the agent broke the promise, and is skipped if no scenario
// tested it. If the test's deadline is near, Run does not run the remaining scenarios, and the test
// fails with a report on the others.
//
// around is synctest.Test of testing/synctest, which runs each scenario in virtual time, or nil for
// real time. In virtual time the agent must use package time, must connect with [Node.Dial], and must
// leave no goroutine behind when Stop and Kill have returned.
func Run[T Test[T]](t T, around func(T, func(T)), cfg Config) *Report {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	rest := restVirtual
	if around == nil {
		around, rest = func(t T, f func(T)) { f(t) }, restReal
	}
	all := newTally()
	left := timeLeft(t.Deadline())
	for n, sc := range cfg.Scenarios {
		if !left() {
			all.skip(cfg.Scenarios[n:])
			t.Errorf("%d of %d scenarios are not played: %v", len(cfg.Scenarios)-n, len(cfg.Scenarios), errNoTime)
			break
		}
		t.Run("scenario="+sc.Name, func(t T) {
			around(t, func(t T) {
				h, err := play(t.Context(), cfg, sc, rest)
				if err != nil {
					all.fail(sc, err)
					t.Fatal(err)
				}
				all.judge(h)
			})
		})
	}
	report := all.done()
	for _, o := range report.Outcomes {
		t.Run(o.Promise, func(t T) { conclude(t, o) })
	}
	return report
}

var errNoTime = errors.New("the time of the test is nearly over, see go test -timeout")

// skip records scenarios for which no time is left.
func (t *tally) skip(all []Scenario) {
	for _, sc := range all {
		t.fail(sc, errNoTime)
	}
}

// timeLeft returns a function to call before each scenario. It reports whether twice the longest
// scenario's duration is left: a test that exceeds its deadline ends without a report.
func timeLeft(deadline time.Time, ok bool) func() bool {
	last, longest := time.Now(), time.Duration(0)
	return func() bool {
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		return !ok || deadline.Sub(now) > 2*longest
	}
}

// conclude passes, fails or skips a promise's test by its outcome.
func conclude[T Test[T]](t T, o Outcome) {
	switch o.State {
	case Broken:
		t.Errorf("%s\nBroken %d times in %d. %s", o.Sentence, o.BrokenTimes, o.Judged, o.Breaches[0].text())
	case NotJudged:
		t.Skip("nothing put it to the test: " + o.Evidence)
	default:
		t.Logf("%s Kept, %d times", o.Sentence, o.Judged)
	}
}

// Judge runs the scenarios in real time, and returns a report. It returns an error if the Config is
// invalid or the context has ended. A scenario that could not be run is in the report, with the
// reason.
func Judge(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &judging{cfg: cfg, tally: newTally()}
	turns := make(chan struct{}, cfg.Parallel)
	var wg sync.WaitGroup
	for _, sc := range cfg.Scenarios {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() == nil {
				j.one(ctx, sc)
			}
		})
	}
	wg.Wait()
	return j.done(), ctx.Err()
}

// judging is the state of one call to Judge.
type judging struct {
	cfg Config
	mu  sync.Mutex
	*tally
	ended int
}

func (j *judging) one(ctx context.Context, sc Scenario) {
	began := time.Now()
	j.progress(Progress{Scenario: sc.Name})
	h, err := play(ctx, j.cfg, sc, restReal)
	j.mu.Lock()
	var broken []string
	if err != nil {
		j.fail(sc, err)
	} else {
		broken = j.judge(h)
	}
	j.ended++
	j.mu.Unlock()
	j.progress(Progress{Scenario: sc.Name, Ended: true, Err: err, Broken: broken, Took: time.Since(began)})
}

func (j *judging) progress(p Progress) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.Done, p.All = j.ended, len(j.cfg.Scenarios)
	if p.Ended {
		p.Report = j.done()
	}
	j.cfg.Progress(p)
}

// Select returns the scenarios with the given names, and an error that lists unknown names.
func Select(all []Scenario, names ...string) ([]Scenario, error) {
	var kept []Scenario
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("agenttest: no scenario is called %q", name))
			continue
		}
		kept = append(kept, all[i])
	}
	return kept, errors.Join(errs...)
}
