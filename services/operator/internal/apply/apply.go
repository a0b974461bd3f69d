// Package apply builds the command garrison apply, which brings the inventory to what files declare.
//
// Package declare compares; this package reads the files and the records, shows, asks and writes.
package apply

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

const long = `Files declare channels, applications, agents, environments with their defaults, and servers as
YAML; garrison export prints the form. An apply changes only fields that its files have, and removes those that they
had at the last apply and no longer have. What other operators set stays. Each file may name its owner (key
owner); a field that another owner declares with another value is refused. Objects that the files do not have any
more are deleted with --prune only. The key wanted of an environment says which versions of agents its servers have:
where something else is wanted, the apply starts a rollout for the environment, with the strategy of its key rollout,
or to one server first. Nothing else orders a change of a server's agents; but a default that it sets, and a server that
it moves to another environment, have what the defaults say installed where it is missing, and the plan
counts it. With --dry-run, the exit code is 3 when something differs.`

// longestWatch is how long an apply watches its rollouts unless it says.
const longestWatch = 24 * time.Hour

// Command returns the command apply.
func Command(env *cli.Env) *cobra.Command {
	var files []string
	var o declare.Options
	var inv inventory.Invitations
	var s Asking
	c := &cobra.Command{
		Use:     "apply -f FILE|DIRECTORY|-",
		Short:   "Bring applications, agents, environments, defaults and labels to what files declare.",
		Long:    long,
		Example: "  garrison apply -f fleet.yaml --dry-run",
		Args:    cli.Exactly(),
		PreRunE: cli.Prints(env, inventory.Listing), SuggestFor: []string{"diff"},
		RunE: func(c *cobra.Command, _ []string) error {
			plan, err := planOf(c.Context(), env, files, o)
			if err != nil {
				return err
			}
			err = Run(c.Context(), env, plan, inv, s, "--invite DIR")
			if err == nil && s.DryRun && plan.Differs() {
				return cli.Ended(cli.ExitDifferent)
			}
			return err
		},
	}
	filesVar(c, &files)
	c.Flags().BoolVar(&o.Prune, "prune", false, "delete objects that this owner declared and the files "+
		"no longer have")
	c.Flags().BoolVar(&o.Force, "force", false, "take fields over from other owners")
	s.Add(c)
	cli.NoteVar(c.Flags(), &s.Note)
	c.Flags().BoolVar(&s.Watch, "watch", false, "watch the rollouts until they end; the exit code is theirs")
	cli.TimeVar(c.Flags(), &s.Timeout, "timeout", longestWatch, 0,
		"stop watching after this `DURATION`, with exit code 7; the rollouts go on")
	inv.Add(c.Flags(), "invite")
	return c
}

func filesVar(c *cobra.Command, files *[]string) {
	named := cli.NotEmpty("file")
	c.Flags().VarP(cli.FlagValue{Read: func(text string) error {
		*files = append(*files, text)
		return named(text)
	}}, "file", "f", "a `FILE`, a directory with files *.yaml, or - for standard input; repeatable")
}

// planOf compares files with the records. Servers are read only where that matters: there may be many.
func planOf(ctx context.Context, env *cli.Env, files []string, o declare.Options) (*declare.Plan, error) {
	set, err := readSet(env, files)
	if err != nil {
		return nil, err
	}
	return Compare(ctx, env, set, o)
}

// Compare compares a set with the records.
func Compare(ctx context.Context, env *cli.Env, set *declare.Set, o declare.Options) (*declare.Plan, error) {
	servers := o.Prune
	for _, obj := range set.Objects {
		servers = servers || obj.Kind == declare.Servers
	}
	var kinds []*declare.Kind
	for _, k := range declare.Kinds {
		if k != declare.Servers || servers {
			kinds = append(kinds, k)
		}
	}
	live, err := inventory.Read(ctx, env, kinds...)
	if err != nil {
		return nil, err
	}
	plan := declare.Compare(set, live, o)
	return plan, compareWanted(ctx, env, set, plan)
}

// refusal returns the error for a problem.
func refusal(p declare.Problem) error {
	at := ""
	switch {
	case p.At.Line > 0:
		at = fmt.Sprintf("%s:%d: ", p.At.File, p.At.Line)
	case p.At.File != "":
		at = p.At.File + ": "
	}
	if p.Refusal != nil {
		refused := proto.CloneOf(p.Refusal)
		refused.Message = fmt.Sprintf("%s%s %s: %s", at, p.Kind.Word, p.Name, refused.GetMessage())
		return client.Refused(refused)
	}
	if p.Fixed {
		return fault.Refusef(fault.Invalid, code.FieldFixed, "%s%s", at, p.Text)
	}
	return fault.Refusef(fault.Conflict, code.FieldOwned, "%s%s", at, p.Text).Try("--force, which takes the field over")
}

// say prints what a plan leaves as it is.
func say(env *cli.Env, plan *declare.Plan) {
	for _, k := range plan.Kept {
		env.Say("note: %s", k)
	}
	if len(plan.Dropped) > 0 {
		env.Say("note: no longer in the files, and kept without --prune: %s", some(plan.Dropped))
	}
}

// namedAtMost is how many names a message lists.
const namedAtMost = 10

// some lists names, the first of many.
func some(names []string) string {
	if n := len(names) - namedAtMost; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtMost], ", "), n)
	}
	return strings.Join(names, ", ")
}

// refuse returns the problems of a plan as one error; nil without any.
func refuse(env *cli.Env, plan *declare.Plan) error {
	if len(plan.Problems) == 0 {
		return nil
	}
	for _, p := range plan.Problems[1:] {
		env.Say("%s", cli.LineOf(refusal(p)))
	}
	return refusal(plan.Problems[0])
}

// errNotInvited refuses servers that are not known.
func errNotInvited(names []string, flag string) error {
	return fault.Refusef(fault.NotFound, code.UnknownServer, "no server %s", some(names)).
		Try(flag + ", which invites them")
}

// maxFiles is how many files a directory may hold.
const maxFiles = 10_000

// readSet reads what the arguments of -f name: files, directories, or - for standard input.
func readSet(env *cli.Env, names []string) (*declare.Set, error) {
	if len(names) == 0 {
		return nil, cli.Usage("-f is missing. Try: garrison apply -f FILE")
	}
	var files []declare.File
	for _, name := range names {
		more, err := readFiles(env, name)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return declare.Read(files)
}

func readFiles(env *cli.Env, name string) ([]declare.File, error) {
	if name == "-" {
		data, err := env.ReadInput(name, declare.MaxFile+1)
		return []declare.File{{Name: "standard input", Data: data}}, err
	}
	if err := cli.CheckPath(name, "garrison export >FILE, which writes one"); err != nil {
		return nil, cli.Usage("-f: %v", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, cli.Usage("-f: %v", err)
	}
	if !info.IsDir() {
		data, err := env.ReadInput(name, declare.MaxFile+1)
		return []declare.File{{Name: name, Data: data}}, err
	}
	entries, err := os.ReadDir(name) // sorted by name
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") ||
			!slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name()))
	})
	if len(entries) == 0 || len(entries) > maxFiles {
		return nil, cli.Usage("-f %s: the directory has %d files *.yaml, *.yml and *.json; want 1 to %d", name,
			len(entries), maxFiles)
	}
	var out []declare.File
	for _, e := range entries {
		f, err := readFile(regular.OpenIn(name, e.Name()))
		if err != nil {
			return nil, cli.Usage("-f: %v", err)
		}
		f.Name = filepath.Join(name, e.Name())
		out = append(out, f)
	}
	return out, nil
}

func readFile(f *os.File, err error) (declare.File, error) {
	if err != nil {
		return declare.File{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, declare.MaxFile+1))
	return declare.File{Data: data}, err
}
