// Package pace makes work that keeps the node's processors busy take turns.
//
// Ten pieces of such work on two processors, begun all at once, all end at the end. A
// few at a time, half of them have ended at half time, and the last ends no later. So
// while the node has no processor to spare only a limited number is under way. What
// has a higher priority goes first, and of one priority what came first; but what has
// waited for ten seconds is overtaken by nothing that comes then.
//
// Work that waits for something else leaves processors idle, and that lets others
// begin: as many as are under way, every 50 ms. And a piece counts for its first
// second only. So pieces that hang, however many, do not hold up the others for long,
// however busy the node is.
package pace

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// window is how long processors are watched to tell whether one is idle.
	window = 50 * time.Millisecond
	// maxTurn is how long a piece of work counts at most.
	maxTurn = time.Second
	// patience is how long work waits behind what comes later with a higher priority.
	patience = 10 * time.Second
)

// Priority tells who goes first: the higher one.
type Priority int

// Pace hands out turns. All methods may be called concurrently. The zero value
// lets everybody begin at once.
type Pace struct {
	limit int
	spare func() bool

	mu       sync.Mutex
	underWay int
	waiting  []*turn   // in the order in which they are to begin
	asked    time.Time // when spare was asked last
}

// New returns a Pace of limit pieces at once; 0 or less is no limit. spare says
// whether a processor has been idle since it was asked last; it is asked by one
// goroutine at a time.
func New(limit int, spare func() bool) *Pace {
	return &Pace{limit: limit, spare: spare}
}

// turn is one piece of work.
type turn struct {
	priority Priority
	came     time.Time
	begin    chan struct{} // closed when it may begin
}

// precedes reports whether a turn comes before one that comes now.
func (t *turn) precedes(now *turn) bool {
	return t.priority >= now.priority || now.came.Sub(t.came) >= patience
}

// Take waits for a turn. The turn ends when release is called, which may be called
// again, or after a second. The error is that of ctx if that ends first.
func (p *Pace) Take(ctx context.Context, priority Priority) (release func(), err error) {
	if p.limit <= 0 {
		return func() {}, nil
	}
	t := &turn{priority: priority, came: time.Now(), begin: make(chan struct{})}
	p.enqueue(t)
	if err := p.wait(ctx, t); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(p.end)
	slow := time.AfterFunc(maxTurn, end)
	return func() {
		slow.Stop()
		end()
	}, nil
}

func (p *Pace) enqueue(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 0
	for at < len(p.waiting) && p.waiting[at].precedes(t) {
		at++
	}
	p.waiting = slices.Insert(p.waiting, at, t)
	p.admit(p.limit)
	if len(p.waiting) == 1 {
		p.ask()
	}
}

func (p *Pace) wait(ctx context.Context, t *turn) error {
	look := time.NewTicker(window)
	defer look.Stop()
	for {
		select {
		case <-t.begin:
			return nil
		case <-look.C:
			p.look()
		case <-ctx.Done():
			if p.withdraw(t) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// withdraw takes back the wish for a turn, unless the turn has come.
func (p *Pace) withdraw(t *turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, t)
	if at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	return at >= 0
}

func (p *Pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay--
	p.admit(p.limit)
}

// admit lets work begin until limit pieces are under way. It must be called with mu
// held.
func (p *Pace) admit(limit int) {
	for p.underWay < limit && len(p.waiting) > 0 {
		close(p.waiting[0].begin)
		p.waiting = p.waiting[1:]
		p.underWay++
	}
}

// look lets more begin if processors are idle. Whoever waits looks; what counts is
// the first look in a window.
func (p *Pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) >= window && p.ask() {
		p.admit(2 * max(p.underWay, p.limit))
	}
}

// ask asks whether a processor has been idle since the last time. It must be called
// with mu held.
func (p *Pace) ask() bool {
	p.asked = time.Now()
	return p.spare()
}
