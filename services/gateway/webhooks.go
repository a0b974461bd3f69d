package gateway

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/services/gateway/internal/webhook"
)

// WebhooksUsage is the help of the flag --webhooks.
const WebhooksUsage = "send facts to the targets in this `FILE`, which must have mode 0600; it is read again when it " +
	"changes; default: nowhere"

// WebhookCommand is the command webhooks of a program that runs the gateway.
type WebhookCommand struct{ command webhook.Command }

// Define defines the flags of the command but those of Webhooks.
func (c *WebhookCommand) Define(fs *flag.FlagSet) {
	config.Checked(fs, &c.command.Test, "test", "", "send a signed test event to this `ROUTE` once, and print what "+
		"its target answers", config.Text)
	config.Checked(fs, &c.command.Dead, "dead", "", "list the dead letters of this `ROUTE`", config.Text)
	config.Checked(fs, &c.command.Resend, "resend", "", "send the dead letters of this `ROUTE` again", config.Text)
	fs.BoolVar(&c.command.RotateKey, "rotate-key", false, "create a key that signs beside the present one, which "+
		"replaces the one before, and print its public half")
}

// Check refuses flags that exclude each other.
func (c *WebhookCommand) Check(fs *flag.FlagSet) error {
	asked := 0
	for _, given := range []bool{
		c.command.Test != "", c.command.Dead != "", c.command.Resend != "", c.command.RotateKey,
	} {
		if given {
			asked++
		}
	}
	if asked > 1 {
		fmt.Fprintf(fs.Output(), "%s: --test, --dead, --resend and --rotate-key exclude each other\n", fs.Name())
		return config.ErrUsage
	}
	return nil
}

// Run checks the file of routes and does what the flags ask for; without any it lists the routes.
func (c *WebhookCommand) Run(ctx context.Context, w Webhooks, out io.Writer) error {
	command := c.command
	command.File, command.Dir, command.Out = w.File, w.Dir, out
	return command.Run(ctx)
}
