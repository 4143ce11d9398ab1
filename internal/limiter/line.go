package limiter

import (
	"slices"
	"time"
)

// turn is one waiting piece of work.
type turn struct {
	came  time.Time
	begin chan struct{} // closed when the work may start
	// over means that the work has started or was cancelled.
	over bool
}

// line is the queue with one priority, in order of arrival. Turns that have ended are dropped when they reach
// the front.
type line struct {
	priority Priority
	turns    []*turn
}

func (l *line) add(t *turn) { l.turns = append(l.turns, t) }

// first returns the turn that has waited longest, nil if there is none.
func (l *line) first() *turn {
	for len(l.turns) > 0 && l.turns[0].over {
		l.turns[0] = nil
		l.turns = l.turns[1:]
	}
	if len(l.turns) == 0 {
		l.turns = nil
		return nil
	}
	return l.turns[0]
}

// line returns the queue of a priority. It requires mu to be held, like next.
func (p *Limiter) line(priority Priority) *line {
	at, found := slices.BinarySearchFunc(p.lines, priority, func(l *line, priority Priority) int { return int(priority - l.priority) })
	if !found {
		p.lines = slices.Insert(p.lines, at, &line{priority: priority})
	}
	return p.lines[at]
}

// next returns the turn to start next: the first of the highest priority or, every other time, the
// longest waiting one of a lower priority, if it has waited long enough. It returns nil if no work
// waits.
func (p *Limiter) next() *turn {
	var first, overdue *turn
	for _, l := range p.lines {
		switch t := l.first(); {
		case t == nil:
		case first == nil:
			first = t
		case time.Since(t.came) >= patience && (overdue == nil || t.came.Before(overdue.came)):
			overdue = t
		}
	}
	if p.gaveWay = overdue != nil && !p.gaveWay; p.gaveWay {
		return overdue
	}
	return first
}
