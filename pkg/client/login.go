package client

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// loginRefused explains why the bus refused a login with the credentials of a context. The bus names the cause only
// when it ends a connection, so otherwise it is what the credentials and the clock of this machine say.
func loginRefused(who trust.Context, login bus.Login, said string, at time.Time) error {
	from, until := trust.Times(who.JWT)
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	r := &apiv1.Refusal{
		Code: code.LoginRefused, Component: "bus", Try: "garrison context list",
		Message: fmt.Sprintf("the bus at %s refused the login of %s: %s", who.URL, who.Actor, said),
	}
	switch {
	case over(until, login, at):
		r.Code = code.LoginOver
		r.Message = fmt.Sprintf("the credentials of %s expired at %s; it is %s by this machine's clock",
			who.Actor, stamp(until), stamp(at))
		r.Try = fmt.Sprintf("garrison user create %s --role %s, by an admin", who.Actor, who.Role)
	case login == bus.LoginDenied && at.Before(from):
		r.Message += fmt.Sprintf("; its credentials begin at %s, and it is %s by this machine's clock, which is wrong",
			stamp(from), stamp(at))
		r.Try = "set the clock of this machine"
	case login == bus.LoginDenied && !until.IsZero():
		r.Message += fmt.Sprintf("; its credentials are valid until %s: they are revoked, or of another Garrison",
			stamp(until))
		r.Try = "garrison user list, by an admin"
	}
	return fault.Refuse(fault.Denied, r)
}

// over reports whether credentials have expired, by what the bus said or else by this machine's clock.
func over(until time.Time, login bus.Login, at time.Time) bool {
	return !until.IsZero() && (login == bus.LoginExpired || login == bus.LoginDenied && !at.Before(until))
}

// shutOut returns the error of a call, or why no further one can succeed. A bare refusal may pass: a bus that starts
// does not know every account yet.
func (c *Client) shutOut(err error) error {
	if fault.Is(err, fault.Unavailable) {
		return cmp.Or(LoggedOut(c), err)
	}
	return err
}

// LoggedOut returns why the bus ended the connection of a client for good, because its credentials expired or were
// revoked; otherwise nil.
func LoggedOut(c *Client) error {
	a := c.conn.Access()
	if !a.Login.Refused() {
		return nil
	}
	_, until := trust.Times(c.who.JWT)
	if now := time.Now(); a.Login == bus.LoginRevoked || over(until, a.Login, now) {
		return loginRefused(c.who, a.Login, cause(c.who, fmt.Errorf("%s", a.Reason)), now)
	}
	return nil
}

// denials fails what waits for an answer on a subject that the bus forbids. The bus reports a forbidden subject to the
// connection only, never to the caller.
type denials struct {
	mu      sync.Mutex
	pending map[*denial]struct{}
}

type denial struct {
	subject string
	fail    context.CancelCauseFunc
}

// watch returns a context that ends when the bus forbids subject. The caller must call stop.
func (d *denials) watch(ctx context.Context, subject string) (watched context.Context, stop func()) {
	watched, fail := context.WithCancelCause(ctx)
	one := &denial{subject, fail}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = map[*denial]struct{}{}
	}
	d.pending[one] = struct{}{}
	return watched, func() {
		d.mu.Lock()
		delete(d.pending, one)
		d.mu.Unlock()
		fail(nil)
	}
}

// report fails with why what waits on the subject that the bus denied. The bus names it in the text only, in quotes.
func (d *denials) report(denied, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.pending {
		if strings.Contains(denied.Error(), `"`+one.subject+`"`) {
			one.fail(why)
		}
	}
}
