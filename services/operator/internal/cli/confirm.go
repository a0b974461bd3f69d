package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/visible"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// Confirm asks for confirmation. When standard input is not a terminal, only --yes confirms.
func (env *Env) Confirm(ctx context.Context, yes bool, question string) error {
	if yes || env.DryRun {
		return nil
	}
	if !IsTerminal(env.In) {
		return Usage("stdin is not a terminal, cannot ask for confirmation. Try: --yes")
	}
	yes, err := env.ask(ctx, question)
	if yes || err != nil {
		env.question = "" // one answer is enough
		return err
	}
	return Exit{Code: ExitError, Err: errors.New("not confirmed; nothing changed")}
}

// Asks asks a question that nothing depends on: without a terminal the answer is no.
func (env *Env) Asks(ctx context.Context, question string) (yes bool, err error) {
	if !IsTerminal(env.In) {
		return false, nil
	}
	return env.ask(ctx, question)
}

func (env *Env) ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(env.Err, "%s [y/N] ", visible.Text(question))
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(env.In).ReadString('\n') // no answer means no
		answered <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case <-ctx.Done(): // Ctrl-C; the reader ends with the process
		env.Say("")
		return false, context.Cause(ctx)
	case answer := <-answered:
		return answer == "y" || answer == "yes", nil
	}
}

// decideWithin bounds the wait for an intent's decision.
const decideWithin = time.Minute

// errUndecided ends the wait for a decision.
var errUndecided = fmt.Errorf("no decision within %s", decideWithin)

// Decide publishes an intent under a new id and waits for the registry's decision. One that was refused is an error,
// with its record beside it.
func (env *Env) Decide(ctx context.Context, in *intentv1.Intent) (id string, record *intentv1.Record, err error) {
	c, err := env.Client(ctx)
	if err != nil {
		return "", nil, err
	}
	id = client.NewID()
	again := "garrison watch " + id
	if err := c.Publish(ctx, id, in); err != nil {
		switch {
		case client.NotStored(err):
			env.Say("the intent is not stored and changes nothing")
		default:
			env.Say("the bus did not answer, so it alone knows whether the intent is stored; once it answers: %s",
				again)
		}
		return id, nil, FirstError(context.Cause(ctx), err)
	}
	once, cancel := context.WithTimeoutCause(ctx, decideWithin, errUndecided)
	defer cancel()
	record, err = c.Decision(once, id)
	switch {
	case err == nil, record != nil:
		return id, record, err
	case errors.Is(err, errUndecided):
		env.Say("the intent is stored and will be decided; to return: %s", again)
		return id, nil, Exit{Code: ExitTimeout, Err: err}
	case once.Err() != nil:
		if in.GetRollout() != nil {
			return id, nil, LeftRollout(ctx, env, context.Cause(ctx), id)
		}
		return id, nil, env.Left(ctx, context.Cause(ctx), again)
	}
	return id, nil, err
}
