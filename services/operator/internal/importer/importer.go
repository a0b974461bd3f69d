// Package importer builds the commands of garrison import, which bring what other systems know into the inventory.
//
// Packages triton and ansible read; this package reads the files and the records, and changes the inventory on the same
// path as garrison apply: with a plan, a confirmation, and an owner of the fields.
package importer

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/apply"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
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
	env.Say("note: %s not known and left out; --%s DIR invites them", listing.Plural(len(names), "server"), inviteFlag)
}

// The limits of a dump.
const (
	maxFiles = 100_000
	maxBytes = 1 << 30
)

// dumpFiles are the files of a directory and of those in it.
type dumpFiles struct {
	read   []declare.File
	others []string // their names only
}

// readDump reads a directory: the files that may hold objects, and the names of the others.
func readDump(env *cli.Env, dir string) (out dumpFiles, err error) {
	total, count := int64(0), 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if count++; count > maxFiles {
			return cli.Usage("%s has more than %d files", dir, maxFiles)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if !slices.Contains(triton.ManifestEndings, filepath.Ext(path)) || strings.HasPrefix(e.Name(), ".") {
			out.others = append(out.others, filepath.ToSlash(name))
			return nil
		}
		data, err := env.ReadInput(path, declare.MaxFile+1) // the file's reader checks the size
		if total += int64(len(data)); err == nil && total > maxBytes {
			return cli.Usage("the files of %s have more than %d bytes together", dir, int64(maxBytes))
		}
		out.read = append(out.read, declare.File{Name: filepath.ToSlash(name), Data: data})
		return err
	})
	if err == nil && len(out.read) == 0 {
		err = cli.Usage("%s has no file *%s", dir, strings.Join(triton.ManifestEndings, ", *"))
	}
	return out, err
}
