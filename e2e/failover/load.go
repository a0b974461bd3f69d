package failover

import (
	"context"
	"slices"
	"sync"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// tryWithin bounds one try to publish an intent.
const tryWithin = 5 * time.Second

// load publishes intents at a constant rate: each asks one server to report what it is. An intent is repeated under its
// id until it is acknowledged, then its decision is awaited, and then it is read once more.
type load struct {
	site    *site
	client  *client.Client
	servers []string
	cancel  func()
	wg      sync.WaitGroup

	mu           sync.Mutex
	acknowledged []time.Time
	waited       []time.Duration // until they were acknowledged
	decided      time.Duration   // the longest
	lost         int
	unheard      int
	wrong        int
}

// publish begins the load.
func (s *site) publish(ctx context.Context) (*load, error) {
	c, err := s.Client(ctx, tryWithin)
	if err != nil {
		return nil, err
	}
	l := &load{site: s, client: c}
	for server, err := range c.Servers(ctx, &registryv1.ListServersRequest{}) {
		if err != nil {
			c.Close()
			return nil, err
		}
		l.servers = append(l.servers, server.GetId())
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.wg.Go(func() {
		tick := time.NewTicker(s.options.Every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			l.wg.Go(func() { l.one(context.WithoutCancel(ctx), l.servers[n%len(l.servers)]) })
		}
	})
	return l, nil
}

// stop ends the load once what it published is decided, or was given up.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
	l.client.Close()
}

// one publishes an intent and awaits its decision.
func (l *load) one(ctx context.Context, server string) {
	ctx, cancel := context.WithTimeout(ctx, l.site.options.Within)
	defer cancel()
	id, began := client.NewID(), time.Now()
	intent := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{
		On: &intentv1.Selector{Servers: []string{server}},
	}}}
	for l.client.Publish(ctx, id, intent) != nil {
		if ctx.Err() != nil {
			l.note(func() { l.unheard++ })
			return
		}
	}
	l.note(func() {
		l.acknowledged, l.waited = append(l.acknowledged, time.Now()), append(l.waited, time.Since(began))
		l.site.Acknowledged(id)
	})
	decided, err := l.client.Decision(ctx, id)
	if ctx.Err() != nil {
		l.note(func() { l.lost++ })
		return
	}
	took := time.Since(began)
	again, missing := l.client.Intent(ctx, id)
	l.note(func() {
		l.decided = max(l.decided, took)
		if err != nil || fault.Is(missing, fault.NotFound) || missing == nil && again.GetState() != decided.GetState() {
			l.wrong++
		}
	})
}

func (l *load) note(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
}

// sum adds what the load met to a row.
func (l *load) sum(row *Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.acknowledged, time.Time.Compare)
	for n := 1; n < len(l.acknowledged); n++ {
		row.Gap = max(row.Gap, l.acknowledged[n].Sub(l.acknowledged[n-1]))
	}
	slices.Sort(l.waited)
	row.Waited = slices.Clone(l.waited)
	row.Intents, row.Decided = len(l.acknowledged), l.decided
	row.Wrong.Lost += l.lost
	row.Wrong.Unheard += l.unheard
	row.Wrong.Reads += l.wrong
}
