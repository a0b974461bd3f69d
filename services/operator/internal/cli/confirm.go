package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Confirm asks for confirmation. When standard input is not a terminal, only --yes confirms.
func (env *Env) Confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !IsTerminal(env.In) {
		return Usage("stdin is not a terminal, cannot ask for confirmation. Try: --yes, or --dry-run to preview")
	}
	yes, err := env.ask(ctx, question)
	if yes || err != nil {
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
