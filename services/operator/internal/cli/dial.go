package cli

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Client returns the client of the control plane and connects at the first call.
func (env *Env) Client(ctx context.Context) (*client.Client, error) {
	if env.client != nil {
		return env.client, nil
	}
	if env.Conn != nil {
		env.client = client.New(env.Conn, env.Patience)
		env.client.OnWait(env.sayWaits)
		return env.client, nil
	}
	who, err := client.FindContext(env.ContextName, env.Getenv)
	if err != nil {
		return nil, Exit{Code: ExitUsage, Err: err}
	}
	c, err := client.Connect(ctx, client.Options{
		Context: who, Timeout: env.Patience, Dial: env.Dial, OnWait: env.sayWaits,
	})
	if err != nil {
		return nil, err
	}
	env.client = c
	env.renew(ctx, who)
	return c, nil
}

// sayWaits prints what is waited for.
func (env *Env) sayWaits(within time.Duration, cause error) {
	what := "the bus does not confirm what it was sent"
	if r := fault.RefusalOf(cause); r != nil {
		what = r.GetMessage()
	}
	env.Say("waiting up to %s for an answer: %s", within, what)
}

// Connected reports whether there is a connection to the bus.
func (env *Env) Connected() bool { return env.client != nil }

// Close disconnects.
func (env *Env) Close() {
	if env.client != nil {
		env.client.Close()
	}
}

// renewWithin bounds how long a command waits for the renewal of its credentials.
const renewWithin = 2 * time.Second

// renew keeps the credentials of the context valid. A command does not fail with its renewal: the next one tries again.
func (env *Env) renew(ctx context.Context, who trust.Context) {
	if !client.RenewalDue(who, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	if _, err := env.client.Renew(ctx, who); err != nil {
		_, until := trust.Times(who.JWT)
		env.Say("credentials of %s expire at %s and were not renewed: %v", who.Actor, until.Format(time.RFC3339), err)
	}
}
