package cli

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Client returns the client of the control plane and connects at the first call.
func (env *Env) Client(ctx context.Context) (*client.Client, error) {
	if env.client != nil {
		return env.client, nil
	}
	if env.Conn != nil {
		env.client = client.New(env.Conn, env.Patience)
		return env.client, nil
	}
	who, err := client.FindContext(env.ContextName, env.Getenv)
	if err != nil {
		return nil, Exit{Code: ExitUsage, Err: err}
	}
	c, err := client.Connect(ctx, client.Options{Context: who, Timeout: env.Patience, Dial: env.Dial})
	if err != nil {
		return nil, err
	}
	env.client = c
	env.renew(ctx, who)
	return c, nil
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
