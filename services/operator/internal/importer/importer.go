package importer

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/apply"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command import with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("import", "Bring what other systems know into the inventory.",
		tritonCommand(env), ansibleCommand(env))
}

// flags are the flags of every import.
type flags struct {
	apply.Asking
	invitations inventory.Invitations
	owner       string
	environment string
}

// inviteFlag is the flag without which no server is invited.
const inviteFlag = "invite"

func (f *flags) add(c *cobra.Command, owner string) {
	f.Asking.Add(c)
	f.invitations.Add(c.Flags(), inviteFlag)
	f.owner = owner
	cli.TextVar(c.Flags(), &f.owner, "owner", cli.Name("owner"), "the `OWNER` of what is imported, as of a file of "+
		"garrison apply; use one for each source")
	cli.TextVar(c.Flags(), &f.environment, "env", cli.Name("environment"), "put the servers into this `ENVIRONMENT`, "+
		"which is created where it is missing")
}

// run compares what an import declares with the records, and makes the changes. Servers that are not known need
// tokens; without a directory for them they are left out.
func (f *flags) run(
	ctx context.Context, env *cli.Env, set *declare.Set, live declare.Live, more func(*declare.Plan),
) error {
	keepEnvironments(set, live)
	plan := declare.Compare(set, live, declare.Options{Keep: true})
	if f.invitations.Dir == "" {
		leaveOutNew(env, plan)
	}
	more(plan)
	return apply.Run(ctx, env, plan, f.invitations, f.Asking, "--"+inviteFlag+" DIR")
}

// keepEnvironments declares the environment that a server got by an earlier import and that this one does not name: a
// run without --env moves no server.
func keepEnvironments(set *declare.Set, live declare.Live) {
	for _, o := range set.Objects {
		have, _ := live[o.Kind][o.Name].(*serverv1.Server)
		next, ok := o.Record.(*serverv1.Server)
		if !ok || next.GetEnvironment() != "" {
			continue
		}
		for _, owner := range have.GetOwners() {
			if _, owned := owner.GetFields()["environment"]; owned && owner.GetName() == set.Owner {
				next.Environment, o.Paths["environment"] = have.GetEnvironment(), true
			}
		}
	}
}

// leaveOutNew removes servers that are not known from a plan, and says so.
func leaveOutNew(env *cli.Env, plan *declare.Plan) {
	names := plan.NewServers()
	if len(names) == 0 {
		return
	}
	plan.Changes = slices.DeleteFunc(plan.Changes, func(c declare.Change) bool {
		return c.Kind == declare.Servers && c.Action == declare.Create
	})
	for _, name := range names {
		plan.Skipped = append(plan.Skipped, declare.Skipped{
			Kind: declare.Servers.Word, Name: name, Reason: "it is not known; --" + inviteFlag + " DIR invites it",
		})
	}
	env.Say("note: %s not known and left out; --%s DIR invites them", output.Plural(len(names), "server"), inviteFlag)
}
