package failover

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

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

// operate begins to run commands about some servers.
func (s *site) operate(ctx context.Context, servers []string) *verbs {
	v := &verbs{site: s}
	ctx, v.cancel = context.WithCancel(ctx)
	var mu sync.Mutex
	for n := range verbsAtOnce {
		v.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				server := servers[(verbsAtOnce*i+n)%len(servers)]
				args := [][]string{
					{"server", "refresh", server, "--detach"}, // an intent
					{"intent", "list", "--limit", "1"},        // a read
					{"server", "label", server, fmt.Sprintf("at=%d", i)},
				}[(n+i)%3]
				began := time.Now()
				_, err := s.CLI(context.WithoutCancel(ctx), args...)
				mu.Lock()
				if v.longest = max(v.longest, time.Since(began)); err != nil {
					v.failed++
					fmt.Fprintln(os.Stderr, "failover:", err)
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(verbsEvery):
				}
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
