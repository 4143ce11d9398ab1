// Package pace makes work that keeps the node's processors busy take turns.
//
// Ten pieces of such work on two processors, begun all at once, all end at the end. A
// few at a time, half of them have ended at half time, and the last ends no later. So
// while the node has no processor to spare only a limited number is under way. What
// has a higher priority goes first, and of one priority what came first; but while
// something has waited for ten seconds behind higher priorities it has every other turn.
// So neither waits for all of the other: many pods that come at once wait with two
// pieces of work each, the second of which comes up when the first is done.
//
// While fewer than the limit would wait nobody does: the last of many begin together, and
// so end together. In turn they would leave processors idle between one and the next.
//
// Work that waits for something else leaves processors idle, and that lets others
// begin: as many as are under way, every 50 ms. And a piece counts for its first
// second only. So pieces that hang, however many, do not hold up the others for long,
// however busy the node is.
package pace

import (
	"context"
	"sync"
	"time"
)

const (
	// window is how long processors are watched to tell whether one is idle.
	window = 50 * time.Millisecond
	// maxTurn is how long a piece of work counts at most.
	maxTurn = time.Second
	// patience is how long work waits behind what has a higher priority.
	patience = 10 * time.Second
)

// Priority tells who goes first: the higher one.
type Priority int

// Pace hands out turns. All methods may be called concurrently. The zero value
// lets everybody begin at once.
//
// What waits costs nothing while it does: one timer looks for all, and neither who
// comes nor who begins is compared with the others.
type Pace struct {
	limit int
	spare func() bool

	mu       sync.Mutex
	underWay int
	lines    []*line   // of each priority, the highest first
	waiting  int       // turns in all lines
	gaveWay  bool      // the last turn went to what had waited for long
	asked    time.Time // when spare was asked last
	looker   *time.Timer
}

// New returns a Pace of limit pieces at once; 0 or less is no limit. spare says
// whether a processor has been idle since it was asked last; it is asked by one
// goroutine at a time.
func New(limit int, spare func() bool) *Pace {
	return &Pace{limit: limit, spare: spare}
}

// Take waits for a turn. The turn ends when release is called, which may be called
// again, or after a second. The error is that of ctx if that ends first.
func (p *Pace) Take(ctx context.Context, priority Priority) (release func(), err error) {
	if p.limit <= 0 {
		return func() {}, nil
	}
	t := p.enqueue(priority)
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

func (p *Pace) enqueue(priority Priority) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &turn{came: time.Now(), begin: make(chan struct{})}
	p.line(priority).add(t)
	p.waiting++
	p.admit(p.limit)
	if p.waiting == 1 {
		p.ask()
		p.lookIn(window)
	}
	return t
}

func (p *Pace) wait(ctx context.Context, t *turn) error {
	select {
	case <-t.begin:
		return nil
	case <-ctx.Done():
		if p.withdraw(t) {
			return ctx.Err()
		}
		return nil
	}
}

// withdraw takes back the wish for a turn, unless the turn has come.
func (p *Pace) withdraw(t *turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	p.waiting--
	return true
}

func (p *Pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay--
	p.admit(p.limit)
}

// admit lets work begin until limit pieces are under way, and all that waits if that is
// little. It must be called with mu held.
func (p *Pace) admit(limit int) {
	for p.waiting > 0 && (p.underWay < limit || p.underWay+p.waiting < 2*p.limit) {
		t := p.next()
		t.over = true
		close(t.begin)
		p.waiting--
		p.underWay++
	}
}

// look lets more begin if processors are idle, for as long as anybody waits.
func (p *Pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 {
		return
	}
	if rest := window - time.Since(p.asked); rest > 0 { // others have begun to wait meanwhile
		p.lookIn(rest)
		return
	}
	if p.ask() {
		p.admit(2 * max(p.underWay, p.limit))
	}
	p.lookIn(window)
}

// lookIn must be called with mu held.
func (p *Pace) lookIn(d time.Duration) {
	switch {
	case p.waiting == 0:
	case p.looker == nil:
		p.looker = time.AfterFunc(d, p.look)
	default:
		p.looker.Reset(d)
	}
}

// ask asks whether a processor has been idle since the last time. It must be called
// with mu held.
func (p *Pace) ask() bool {
	p.asked = time.Now()
	return p.spare()
}
