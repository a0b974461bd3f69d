// Package events builds garrison events, which reads and follows the ledger.
//
//  1. Facts are printed in the order of the ledger, each once.
//  2. A ledger that was set back, as by a restored backup, is reported and read again from its start.
//  3. The whole id of a noun, the name of a server, a time and the last N facts are found without reading the ledger
//     from its start.
package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// retryAfter is the pause before the ledger is read again when the registry does not answer.
const retryAfter = time.Second

// eventFlags select facts.
type eventFlags struct {
	follow bool
	since  time.Time
	noun   string   // the only noun
	nouns  []string // all of them
	facts  []string
	actor  string
	until  time.Time
	id     string
	limit  uint32
	from   uint64
}

// Command returns the command events.
func Command(env *cli.Env) *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use: "events", Short: "Read the ledger: every decision, its time and its actor.", Args: cli.Exactly(),
		Long: `Read the ledger: every decision, its time and its actor. -f starts at the end of the ledger; with
--since, --cursor or --limit it prints earlier facts first. With --since or --noun task, the id or name of
a server also finds the tasks on it. The id of a rollout also finds the intents that it led to and their
tasks. With -f, --jq runs for each fact: on its row, or with -o json on the fact.`,
		SuggestFor: []string{"log", "history", "audit", "journal"},
		Example: "  garrison events --since 10m --noun task --fact failed,undone\n" +
			"  garrison events --since yesterday --until today --actor ann --noun intent,hold\n" +
			"  garrison events -f -o jsonl\n" +
			"  garrison events -f --jq 'select(.noun == \"task\") | .detail'",
		RunE: func(c *cobra.Command, _ []string) error { return read(c.Context(), env, f) },
	}
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "continue with new facts until Ctrl-C")
	c.Flags().
		Var(cli.ValueOf(&f.since, cli.LookbackReader(env.Now), func(time.Time) string { return "" }), "since",
			"only facts since a "+cli.TimeWords)
	c.Flags().
		Var(cli.ValueOf(&f.until, cli.SinceReader(env.Now), func(time.Time) string { return "" }), "until",
			"only facts before a "+cli.TimeWords)
	cli.TextVar(c.Flags(), &f.actor, "actor", cli.NotEmpty("actor"), "only facts of this `ACTOR`, a user or a service")
	cli.NamesVar(c.Flags(), &f.nouns, "noun", cli.OneOf("noun", nouns()),
		"only facts about these `NOUNS`, separated by commas: "+strings.Join(nouns(), ", "))
	cli.NamesVar(c.Flags(), &f.facts, "fact", cli.OneOf("fact", names(func(k ledger.Kind) string { return k.Name })),
		"only these `FACTS`, separated by commas, such as failed,halted,offline")
	cli.TextVar(
		c.Flags(),
		&f.id,
		"id",
		cli.NotEmpty("id"),
		"only facts with this `ID` in their key or request, or the name of an agent or server; the first or last "+
			"eight characters of an id suffice",
	)
	cli.LimitVar(c.Flags(), &f.limit, "limit", 0,
		"at most this many `FACTS`, or all: the first with --since or --cursor, else the last")
	c.Flags().
		Var(cli.ValueOf(&f.from, parseSequence, func(uint64) string { return "" }), "cursor",
			"start at this `SEQUENCE`")
	return c
}

func read(ctx context.Context, env *cli.Env, f eventFlags) error {
	if err := checkEvents(env, f); err != nil {
		return err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	if len(f.nouns) == 1 {
		f.noun = f.nouns[0]
	}
	r := &reader{client: c, flags: f, ids: idsOf(ctx, env, f.id)}
	p := &eventPrinter{env: env, limit: int(f.limit), last: f.last(), follow: f.follow}
	if f.follow {
		return readError(ctx, env, follow(ctx, env, r, p))
	}
	if err = r.readAll(ctx, p.add); err == nil {
		err = p.end()
	}
	return readError(ctx, env, err)
}

// last reports whether the limit selects the last facts, not the first.
func (f eventFlags) last() bool { return f.since.IsZero() && f.from == 0 }

// readError returns why reading ended; Ctrl-C is the normal end of following.
func readError(ctx context.Context, env *cli.Env, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// idsOf returns the ids that --id stands for: the value itself, and for the name of a server also its id, since facts
// name servers by id. Without the registry only the value itself is used.
func idsOf(ctx context.Context, env *cli.Env, given string) []string {
	if given == "" {
		return nil
	}
	ids := []string{given}
	if ident.IsUUID(given) || ident.CheckHostname("server", given) != nil {
		return ids
	}
	found, err := fleet.Server(ctx, env, given)
	if err != nil && !fault.Is(err, fault.NotFound) {
		env.Say("%s is not searched as the name of a server: %v", given, err)
	}
	if found.GetName() == given {
		ids = append(ids, found.GetId())
	}
	return ids
}

// nouns returns the nouns of the ledger.
func nouns() []string { return names(func(k ledger.Kind) string { return string(k.Noun) }) }

// names returns a name of each kind of fact, each once.
func names(of func(ledger.Kind) string) []string {
	var out []string
	for _, k := range ledger.Kinds {
		if name := of(k); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func checkEvents(env *cli.Env, f eventFlags) error {
	whole := env.Output.Format == output.FormatJSON && env.Output.Filter == nil
	if f.follow && (whole || env.Output.Format == output.FormatYAML) {
		return cli.Usage("--follow cannot print %s, which is one document. Try: -o jsonl", env.Output.Format)
	}
	if f.follow && !f.until.IsZero() {
		return cli.Usage("--follow and --until exclude each other")
	}
	if !f.until.IsZero() && !f.until.After(f.since) {
		return cli.Usage("--until is not after --since, so no fact is between them")
	}
	if f.follow && env.Output.Sort != "" {
		return cli.Usage("--follow cannot be combined with --sort")
	}
	return nil
}

func parseSequence(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not the sequence of a fact, a whole number from 1", text)
	}
	return n, nil
}

// follow prints the current facts and then new ones. A ledger that was set back is read from its start.
func follow(ctx context.Context, env *cli.Env, r *reader, p *eventPrinter) error {
	limit, last := p.limit, p.last
	for {
		err := followOnce(ctx, env, r, p)
		reset, ok := errors.AsType[*client.ResetError](err)
		if !ok {
			return err
		}
		env.Say("reset: the ledger no longer has fact %d; it was set back, "+
			"as by a restored backup. Reading it from its start", reset.Last.Sequence)
		p.limit, p.last, r.again, r.derived = limit, last, true, nil
	}
}

// followOnce prints until the ledger is set back.
func followOnce(ctx context.Context, env *cli.Env, r *reader, p *eventPrinter) error {
	after, err := r.begin(ctx, p.add)
	for fault.Is(err, fault.Unavailable) && after.After.Sequence == 0 && ctx.Err() == nil {
		if err := cli.Pause(ctx, retryAfter); err != nil {
			return err
		}
		after, err = r.begin(ctx, p.add)
	}
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		return err
	}
	p.last, p.limit = false, 0 // later facts are all shown
	for e, err := range r.client.Follow(ctx, after) {
		if err != nil {
			return err
		}
		if !r.fits(e) {
			continue
		}
		if _, err := p.add([]event{eventOf(e)}); err != nil {
			return err
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}
