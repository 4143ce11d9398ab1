// Package limiter limits concurrent work that keeps the node's processors busy.
//
// If ten pieces of such work start at once on two processors, all ten finish at the end. With a few
// at a time, half of them finish at half time, and the last one no later. So while no processor is
// idle, only a limited number of pieces run. Higher priorities start first, and equal priorities in
// order of arrival. Work that has waited ten seconds behind higher priorities gets every other
// start, so that neither starves the other: with many new pods, each pod waits with two pieces of
// work, and the second is enqueued when the first is done.
//
// While fewer pieces than the limit would wait, all of them start: the last of many start together,
// because otherwise processors would be idle between one piece and the next.
//
// Work that waits for something else leaves processors idle, and then more pieces start: as many as
// are running, every 50 ms. A piece also counts only for its first second. So pieces that hang,
// however many, do not block the others for long, even on a busy node.
package limiter

import (
	"context"
	"sync"
	"time"
)

const (
	// window is the interval over which idle processors are measured.
	window = 50 * time.Millisecond
	// maxTurn is how long a piece of work counts as running.
	maxTurn = time.Second
	// patience is how long work waits behind higher priorities before it gets every other start.
	patience = 10 * time.Second
)

// Priority orders waiting work: higher priorities start first.
type Priority int

// Limiter limits concurrent work. All methods may be called concurrently. The zero value has no limit.
//
// Waiting is cheap: one timer serves all, and neither arrivals nor starts scan the queue.
type Limiter struct {
	limit int
	spare func() bool

	mu       sync.Mutex
	underWay int
	lines    []*line   // of each priority, the highest first
	waiting  int       // turns in all lines
	gaveWay  bool      // the last work started was overdue
	asked    time.Time // when spare was last called
	looker   *time.Timer
}

// New returns a Limiter for limit concurrent pieces; 0 or less means no limit. spare reports whether a
// processor has been idle since its last call; calls of spare do not overlap.
func New(limit int, spare func() bool) *Limiter {
	return &Limiter{limit: limit, spare: spare}
}

// Take waits until the work may start. The work counts until release is called, or for a second.
// release may be called more than once. If ctx ends first, Take returns its error.
func (p *Limiter) Take(ctx context.Context, priority Priority) (release func(), err error) {
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

func (p *Limiter) enqueue(priority Priority) *turn {
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

func (p *Limiter) wait(ctx context.Context, t *turn) error {
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

// withdraw cancels a waiting turn and reports whether it had not started.
func (p *Limiter) withdraw(t *turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	p.waiting--
	return true
}

func (p *Limiter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay--
	p.admit(p.limit)
}

// admit starts waiting work until limit pieces are running, and all of it if few pieces wait. It
// requires mu to be held.
func (p *Limiter) admit(limit int) {
	for p.waiting > 0 && (p.underWay < limit || p.underWay+p.waiting < 2*p.limit) {
		t := p.next()
		t.over = true
		close(t.begin)
		p.waiting--
		p.underWay++
	}
}

// look starts more work if processors are idle, and repeats this as long as work waits.
func (p *Limiter) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 {
		return
	}
	if rest := window - time.Since(p.asked); rest > 0 { // more work has arrived in the meantime
		p.lookIn(rest)
		return
	}
	if p.ask() {
		p.admit(2 * max(p.underWay, p.limit))
	}
	p.lookIn(window)
}

// lookIn must be called with mu held.
func (p *Limiter) lookIn(d time.Duration) {
	switch {
	case p.waiting == 0:
	case p.looker == nil:
		p.looker = time.AfterFunc(d, p.look)
	default:
		p.looker.Reset(d)
	}
}

// ask reports whether a processor has been idle since the last call. It requires mu to be held.
func (p *Limiter) ask() bool {
	p.asked = time.Now()
	return p.spare()
}
