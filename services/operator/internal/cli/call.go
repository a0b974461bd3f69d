package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Call sends a request to the service that takes it and returns the response. It connects first if necessary.
func Call[R proto.Message](ctx context.Context, env *Env, request proto.Message) (R, error) {
	c, err := env.Client(ctx)
	if err != nil {
		var zero R
		return zero, err
	}
	r, err := client.Call[R](ctx, c, request)
	if err == nil {
		env.sayNewer(r)
	}
	return r, err
}

// sayNewer says once that a service is newer than this program, when an answer holds what this program does not know.
func (env *Env) sayNewer(answer proto.Message) {
	if env.newer {
		return
	}
	if err := strict.Check(answer); err != nil {
		env.newer = true
		env.Say("the control plane is newer than this garrison, which does not show all of its answer (%v); "+
			"see garrison versions", err)
	}
}

// CallService sends a request that every service takes to one of them, by its name on the bus.
func CallService[R proto.Message](ctx context.Context, env *Env, service string, request proto.Message) (R, error) {
	c, err := env.Client(ctx)
	if err != nil {
		var zero R
		return zero, err
	}
	return client.CallService[R](ctx, c, service, request)
}

// Client returns the client of the control plane and connects at the first call.
func (env *Env) Client(ctx context.Context) (*client.Client, error) {
	if env.client != nil {
		return env.client, nil
	}
	if env.Conn != nil {
		env.client = env.guarded(client.New(env.Conn, env.Patience))
		env.client.OnWait(env.sayWaits)
		return env.client, nil
	}
	who, err := client.FindContext(env.ContextName, env.Getenv)
	if err != nil {
		return nil, Exit{Code: ExitUsage, Err: err}
	}
	sayReadable(env, who)
	c, err := client.Connect(ctx, client.Options{
		Context: who, Timeout: env.Patience, Dial: env.Dial, OnWait: env.sayWaits,
	})
	if err != nil {
		return nil, err
	}
	env.client = c
	env.renew(ctx, who)
	return env.guarded(c), nil
}

// sayReadable warns of a context file whose private key other users can read.
func sayReadable(env *Env, who trust.Context) {
	info, err := os.Stat(who.File)
	if err == nil && who.Seed != "" && info.Mode().Perm()&0o077 != 0 {
		env.Say("warning: context %s holds a private key and has mode %04o: other users can read it. Try: %s",
			listing.Quote(who.File), info.Mode().Perm(), fault.Hintf("chmod go-rwx %s", who.File))
	}
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

// Pause waits for d. It returns the cause of the context when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// ErrWaited is the cause of a context whose --timeout passed.
var ErrWaited = errors.New("the time-out passed")

// Left prints how to return to work that continues without the view, and returns the error to exit with.
func (env *Env) Left(ctx context.Context, err error, how string) error {
	return left(ctx, env, err, how, "to cancel changes that have not begun: garrison cancel INTENT")
}

// LeftRollout is Left for the view of a rollout.
func LeftRollout(ctx context.Context, env *Env, err error, id string) error {
	return left(ctx, env, err, "garrison watch "+id, fmt.Sprintf(
		"to begin nothing more: garrison rollout pause %s; to end it: garrison rollout abort %s", id, id))
}

func left(ctx context.Context, env *Env, err error, how, stop string) error {
	switch {
	case errors.Is(err, ErrWaited) || errors.Is(context.Cause(ctx), ErrWaited):
		env.Say("the work continues; to return: %s", how)
		return Exit{Code: ExitTimeout, Err: ErrWaited}
	case errors.Is(err, context.Canceled):
		env.Say("left the view; the work continues; to return: %s", how)
		env.Say("%s", stop)
		return Ended(ExitInterrupted)
	}
	return err
}
