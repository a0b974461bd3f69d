// Package pace counts what each of many senders causes, so that none causes more than its share.
//
// Guarantees:
//
//  1. A key gets at most n turns in each period, which begins with its first turn.
//  2. What was left out is counted, and the next turn of the key reports it.
//  3. At most maxKeys keys are remembered. Above that, new keys share one allowance until a period ends.
package pace

import (
	"sync"
	"time"
)

// maxKeys bounds the memory; a key of it is a server or a person.
const maxKeys = 100_000

// Pace is an allowance for each of many keys. It is safe for concurrent use.
type Pace struct {
	n     int
	every time.Duration
	now   func() time.Time

	mu     sync.Mutex
	keys   map[string]*period
	pruned time.Time // when old keys were forgotten last
}

type period struct {
	began   time.Time
	taken   int
	leftOut uint64
}

// New returns an allowance of n turns a key in each period of that length.
func New(n int, every time.Duration) *Pace {
	return &Pace{n: n, every: every, now: time.Now, keys: map[string]*period{}}
}

// Take takes a turn of a key. It reports whether there was one and, if so, how many turns were
// refused since the last one.
func (p *Pace) Take(key string) (leftOut uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	is := p.period(key, now)
	if now.Sub(is.began) >= p.every {
		is.began, is.taken = now, 0
	}
	if is.taken >= p.n {
		is.leftOut++
		return 0, false
	}
	leftOut, is.leftOut = is.leftOut, 0
	is.taken++
	return leftOut, true
}

// Open reports whether a key has a turn left, without taking it.
func (p *Pace) Open(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.keys[key]
	return is == nil || is.taken < p.n || p.now().Sub(is.began) >= p.every
}

// period returns the period of a key, or the one that new keys share when there are too many.
func (p *Pace) period(key string, now time.Time) *period {
	if is := p.keys[key]; is != nil {
		return is
	}
	if len(p.keys) >= maxKeys && now.Sub(p.pruned) >= p.every {
		p.pruned = now
		for k, is := range p.keys {
			if now.Sub(is.began) >= p.every {
				delete(p.keys, k)
			}
		}
	}
	if len(p.keys) >= maxKeys {
		key = ""
		if is := p.keys[key]; is != nil {
			return is
		}
	}
	is := &period{began: now}
	p.keys[key] = is
	return is
}
