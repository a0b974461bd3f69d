package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

const (
	// pushEvery is the shortest time between two pushes of an account: each one has the bus check the JWT
	// of every connection of the account.
	pushEvery = time.Second
	// pushShare is how much longer than the last push of an account the time until the next one is, so that the bus is
	// not busy with them.
	pushShare = 3
	// lookEvery is the shortest time between two looks at the view.
	lookEvery = 100 * time.Millisecond
	// verifyEvery is how often the bus is compared with what was pushed.
	verifyEvery = time.Minute
	// pushWithin bounds one push.
	pushWithin = 10 * time.Second
)

// pushed are the accounts that refuse keys.
var pushed = []string{
	topology.AccountNodes, topology.AccountGuests, topology.AccountLobby, topology.AccountOps, topology.AccountAudit,
}

// pusher keeps the accounts on the bus such that they refuse every key that is shut out.
type pusher struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	restored func(want map[string]view.Revoked) // adds the keys that a restore must not let in again
	// suspended adds the keys that are refused for a while, and returns when that changes
	suspended func(want map[string]view.Revoked, next time.Time) time.Time
	changed   chan struct{}
	verify    chan struct{} // the bus may have lost what was pushed

	mu       sync.Mutex
	accounts map[string]*account
	position uint64        // up to this fact the bus has confirmed what follows from the ledger
	moved    chan struct{} // closes when position changes
	trouble  string        // why the last push failed, or empty
}

// account is what the bus has confirmed of an account.
type account struct {
	Refused   int       // how many keys it refuses
	Left      int       // how many more it should, which do not fit
	Confirmed time.Time // when the bus confirmed that

	token string
	keys  []string
	rests time.Time // it is not pushed before
}

func newPusher(cfg Config, v *view.View, f *fold.Follower) *pusher {
	p := &pusher{
		cfg: cfg, view: v, follower: f, changed: make(chan struct{}, 1), verify: make(chan struct{}, 1),
		accounts: map[string]*account{}, moved: make(chan struct{}),
	}
	for _, name := range pushed {
		p.accounts[name] = &account{}
	}
	cfg.System.OnBack(func() { ring(p.verify) })
	return p
}

// wake has the pusher look at the view again. It does not block.
func (p *pusher) wake() { ring(p.changed) }

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run pushes until ctx is done. A push that fails is tried again, and logged once for each reason.
func (p *pusher) run(ctx context.Context) error {
	verify := time.NewTicker(verifyEvery)
	defer verify.Stop()
	check := true
	for {
		next, err := p.push(ctx, check)
		if check = err != nil; ctx.Err() == nil {
			p.note(err)
		}
		rest := lookEvery
		if err != nil {
			rest = pushEvery
		}
		if !pause(ctx, rest) {
			return nil
		}
		if err != nil {
			continue
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(max(0, next.Sub(p.cfg.Now())))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		case <-due:
		case <-p.verify:
			check = true
		case <-verify.C:
			check = true
		}
	}
}

// sooner returns the earlier of two times; zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// push brings the bus up to what follows from the view. With check it asks the bus first for what it has. It returns
// when to look again without a fact; zero means never.
func (p *pusher) push(ctx context.Context, check bool) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	position := p.follower.Position() // what follows is read at this fact or later
	var want map[string]view.Revoked
	p.follower.Read(func() { want, next = p.view.Revocations(p.cfg.Now(), trust.MaxRevoked) })
	p.restored(want)
	next = p.suspended(want, next)
	var servers []bus.Server
	late := false
	for _, name := range pushed {
		have := p.account(name)
		if !check && have.covers(want[name]) {
			continue
		}
		if !check && p.cfg.Now().Before(have.rests) {
			next, late = sooner(next, have.rests), true
			continue
		}
		if servers == nil {
			if servers, err = p.cfg.System.Servers(ctx); err != nil {
				return next, err
			}
		}
		if e := p.pushAccount(ctx, name, want[name], check, len(servers)); e != nil {
			err = errors.Join(err, fmt.Errorf("account %s: %w", name, e))
		}
	}
	if err == nil && !late {
		p.reached(position)
	}
	return next, err
}

// account returns what the bus has confirmed of an account.
func (p *pusher) account(name string) account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.accounts[name]
}

// covers reports whether the bus refuses the keys that it should, and no others.
func (a account) covers(want view.Revoked) bool {
	return a.token != "" && slices.Equal(a.keys, want.Keys)
}

// pushAccount pushes one account, if the bus does not have it already.
func (p *pusher) pushAccount(ctx context.Context, name string, want view.Revoked, check bool, servers int) error {
	token, err := p.cfg.Issuer.Revoke(name, want.Keys)
	if err != nil {
		return err
	}
	rests := time.Time{}
	if !check || !p.onBus(ctx, name, token, servers) {
		begun := p.cfg.Now()
		if err := p.cfg.System.UpdateAccount(ctx, token, servers); err != nil {
			return err
		}
		now := p.cfg.Now()
		rests = now.Add(max(pushEvery, pushShare*now.Sub(begun)))
		p.cfg.Log.Info().Str("account", name).Int(logs.Count, len(want.Keys)).Msg("account pushed")
	}
	if want.Left > p.account(name).Left {
		p.cfg.Log.Error().Str("account", name).Int(logs.Count, want.Left).
			Msg("account refuses too many keys; those that expire first are let in")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts[name] = &account{
		Refused: len(want.Keys), Left: want.Left, Confirmed: p.cfg.Now(), token: token, keys: want.Keys, rests: rests,
	}
	return nil
}

// onBus reports whether every server of the bus has an account as the token says.
func (p *pusher) onBus(ctx context.Context, name, token string, servers int) bool {
	tokens, err := p.cfg.System.AccountJWTs(ctx, p.cfg.Issuer.AccountKey(name), servers)
	return err == nil && !slices.ContainsFunc(tokens, func(t string) bool { return !trust.SameAccount(t, token) })
}

// note logs why a push failed, when that is news, and that it works again.
func (p *pusher) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	before := p.trouble
	p.trouble = text
	p.mu.Unlock()
	switch {
	case text == before:
	case err != nil:
		p.cfg.Log.Warn().Err(err).Msg("accounts not pushed; retrying")
	default:
		p.cfg.Log.Info().Msg("accounts pushed again")
	}
}

// reached notes that the bus has confirmed what follows from the ledger up to a fact.
func (p *pusher) reached(position uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if position > p.position {
		p.position = position
		close(p.moved)
		p.moved = make(chan struct{})
	}
}

// wait waits until the bus has confirmed what follows from a fact, and reports whether it has.
func (p *pusher) wait(ctx context.Context, sequence uint64) bool {
	for {
		p.mu.Lock()
		position, moved := p.position, p.moved
		p.mu.Unlock()
		if position >= sequence {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// show returns what a debug socket shows.
func (p *pusher) show() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return map[string]any{
		"accounts": maps.Clone(p.accounts), "position": p.position, "trouble": p.trouble,
	}
}

// pause waits, and reports whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
