package failover

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
	"github.com/garrison-fleet/garrison/pkg/fault"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// tryWithin bounds one try to publish an intent.
const tryWithin = 5 * time.Second

// published is the load during a row: intents at a constant rate, each of which asks one server to report what it is.
// An intent is repeated under its id until it is acknowledged, then its decision is awaited, and then it is read once
// more.
type published struct {
	site   *site
	before int // intents that were acknowledged before the row
	cancel func()
	wg     sync.WaitGroup

	mu      sync.Mutex
	decided time.Duration // the longest
	wrong   Wrong
}

// publish begins the load.
func (s *site) publish(ctx context.Context) *published {
	l := &published{site: s, before: len(s.Intents.IDs())}
	ctx, l.cancel = context.WithCancel(ctx)
	l.wg.Go(func() {
		load.Every(ctx, s.options.Every, func(n int) {
			l.wg.Go(func() { l.one(context.WithoutCancel(ctx), s.servers[n%len(s.servers)]) })
		})
	})
	return l
}

// one publishes an intent and awaits its decision.
func (l *published) one(ctx context.Context, server string) {
	ctx, cancel := context.WithTimeout(ctx, l.site.options.Within)
	defer cancel()
	began := time.Now()
	id, acknowledged := l.site.Intents.Publish(ctx, &intentv1.Intent{Ask: &intentv1.Intent_Refresh{
		Refresh: &intentv1.Refresh{On: &intentv1.Selector{Servers: []string{server}}},
	}})
	if !acknowledged {
		l.note(func() { l.wrong.Unheard++ })
		return
	}
	decided, err := l.site.client.Decision(ctx, id)
	if ctx.Err() != nil {
		l.note(func() { l.wrong.Lost++ })
		return
	}
	took := time.Since(began)
	again, missing := l.site.client.Intent(ctx, id)
	l.note(func() {
		l.decided = max(l.decided, took)
		if err != nil || fault.Is(missing, fault.NotFound) || missing == nil && again.GetState() != decided.GetState() {
			l.wrong.Reads++
		}
	})
}

func (l *published) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
}

// stop ends the load once what it published is decided, or was given up, and adds what it met to a row.
func (l *published) stop(row *Row) {
	l.cancel()
	l.wg.Wait()
	_, all := l.site.Intents.Counts()
	acks := all[l.before:]
	slices.SortFunc(acks, func(a, b load.Acknowledged) int { return a.At.Compare(b.At) })
	for n, a := range acks {
		if row.Waited = append(row.Waited, a.Waited); n > 0 {
			row.Gap = max(row.Gap, a.At.Sub(acks[n-1].At))
		}
	}
	slices.Sort(row.Waited)
	row.Intents, row.Decided = len(acks), l.decided
	row.Wrong.add(l.wrong)
}

// verbs runs commands one after the other, as operators do who notice nothing. Each of them must do what it does.
type verbs struct {
	site   *site
	cancel func()
	wg     sync.WaitGroup

	failed  int
	longest time.Duration
}

const (
	// verbsAtOnce is how many operators run commands, each another one than the others.
	verbsAtOnce = 3
	// verbsEvery is the pause of an operator between two commands.
	verbsEvery = time.Second
)

// operate begins to run commands about the servers.
func (s *site) operate(ctx context.Context) *verbs {
	v := &verbs{site: s}
	ctx, v.cancel = context.WithCancel(ctx)
	var mu sync.Mutex
	for n := range verbsAtOnce {
		v.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				server := s.servers[(verbsAtOnce*i+n)%len(s.servers)]
				args := [][]string{
					{"server", "refresh", server, "--detach"}, // an intent
					{"intent", "list", "--limit", "1"},        // a read
					{"server", "set", server, fmt.Sprintf("at=%d", i)},
				}[(n+i)%3]
				began := time.Now()
				_, err := s.CLI(context.WithoutCancel(ctx), args...)
				mu.Lock()
				if v.longest = max(v.longest, time.Since(began)); err != nil {
					v.failed++
					fmt.Fprintln(os.Stderr, "failover:", err)
				}
				mu.Unlock()
				_ = rig.Sleep(ctx, verbsEvery)
			}
		})
	}
	return v
}

// stop ends the commands, and adds what they met to a row.
func (v *verbs) stop(row *Row) {
	v.cancel()
	v.wg.Wait()
	row.Verb = v.longest
	row.Wrong.Verbs += v.failed
}
