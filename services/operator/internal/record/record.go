// Package record builds the five commands of a noun that is a name with metadata: create, list, show, update, delete.
//
// Agents, applications and environments share it. A Noun says what differs; Commands builds the rest.
package record

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	wire "github.com/garrison-fleet/garrison/pkg/record"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Record is an object that operators create, change and delete by name: an application, environment or agent.
type Record interface {
	proto.Message
	GetName() string
	GetMetadata() map[string]string
	GetRevision() uint64
}

// Noun describes one kind of record: its words, its flags and its calls.
type Noun[T Record] struct {
	Env                  *cli.Env
	Word, Command, Short string
	Example              string // the name of one, in examples
	Without              string // its dependents, which prevent its deletion
	Whose                string // the agents that its metadata configures
	Unknown              string // the code where no record has a name
	Listing              listing.Listing[T]
	Blank                func(name string) T
	SetMetadata          func(T, map[string]string)
	Flags                func(f *pflag.FlagSet, said *Edits[T], update bool) // its flags besides the metadata

	On   func(name string) string                      // the selector of the servers that its metadata concerns
	More func(context.Context, T) ([][2]string, error) // what show prints besides the fields; may be nil

	Check func(ctx context.Context, was, now T) error // what else must hold of a record to be written; may be nil

	Help    string                                // what the help of update says besides; may be ""
	Updated func(ctx context.Context, was, now T) // prints what an update means; may be nil
}

// Commands returns the noun with its five verbs.
func Commands[T Record](k Noun[T]) *cobra.Command {
	env := k.Env
	return cli.Group(k.Command, k.Short, k.createCommand(env), k.listCommand(env), k.showCommand(env),
		k.updateCommand(env), k.deleteCommand(env))
}

// All returns all records, by name.
func (k Noun[T]) All(ctx context.Context) ([]T, error) {
	return cli.Records[T](ctx, k.Env, wire.List(k.noun()))
}

func (k Noun[T]) noun() ledger.Noun { return wire.NounOf(k.Blank("")) }

// Find returns a record by name. Its refusal of an unknown name suggests the nearest one.
func (k Noun[T]) Find(ctx context.Context, name string) (found T, err error) {
	all, err := k.All(ctx)
	if err != nil {
		return found, err
	}
	var names []string
	for _, t := range all {
		if t.GetName() == name {
			return t, nil
		}
		names = append(names, t.GetName())
	}
	return found, cli.Unknown(k.Unknown, "no "+k.Word, name, slices.Values(names), "garrison "+k.Command+" list")
}

func (k Noun[T]) createCommand(env *cli.Env) *cobra.Command {
	var said Edits[T]
	var f cli.Values
	c := &cobra.Command{
		Use:     "create NAME",
		Example: "  garrison " + k.Command + " create " + k.Example,
		Short:   "Create an " + k.Word + ".",
		Args:    cli.Exactly("NAME"),
		PreRunE: cli.Prints(env, k.Listing),
		RunE: func(c *cobra.Command, a []string) error {
			t, err := k.edited(c.Context(), env, k.Blank(a[0]), said, &f)
			if err != nil {
				return err
			}
			if err := k.check(c.Context(), k.Blank(a[0]), t); err != nil {
				return err
			}
			if t, _, err = cli.Put[T](c.Context(), env, wire.Create(t)); err != nil {
				return err
			}
			return cli.Changed(env, k.Listing, t, "%s %s created", k.Word, a[0])
		},
	}
	k.Flags(c.Flags(), &said, false)
	f.Add(c.Flags(), k.Whose)
	return c
}

// edited returns a record with the changes of the flags.
func (k Noun[T]) edited(ctx context.Context, env *cli.Env, t T, said Edits[T], f *cli.Values) (T, error) {
	change, err := f.Change(ctx, env)
	if err != nil {
		return t, err
	}
	for _, edit := range said {
		edit(t)
	}
	for _, name := range change.Missing(t.GetMetadata()) {
		env.Say("note: --unset %s has no effect: %s %s has no value of that name", name, k.Word, t.GetName())
	}
	k.SetMetadata(t, change.Apply(t.GetMetadata()))
	return t, nil
}

// check returns why a record must not be written, besides what the service refuses.
func (k Noun[T]) check(ctx context.Context, was, now T) error {
	if k.Check == nil {
		return nil
	}
	return k.Check(ctx, was, now)
}

func (k Noun[T]) updateCommand(env *cli.Env) *cobra.Command {
	var said Edits[T]
	var f cli.Values
	var revision uint64
	c := &cobra.Command{
		Use:     "update NAME",
		Example: "  garrison " + k.Command + " update " + k.Example + " --description 'see the wiki'",
		Short:   "Change an " + k.Word + "; fields without a flag stay as they are.",
		Long:    "Change an " + k.Word + "; fields without a flag stay as they are." + k.Help,
		Args:    cli.Exactly("NAME"),
		PreRunE: cli.Prints(env, k.Listing),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := k.Find(c.Context(), a[0])
			if err != nil {
				return err
			}
			now, err := k.edited(c.Context(), env, proto.CloneOf(found), said, &f)
			if err != nil {
				return err
			}
			if proto.Equal(found, now) {
				env.Say("nothing to do")
				return nil
			}
			if err := k.check(c.Context(), found, now); err != nil {
				return err
			}
			basedOn(now, revision)
			now, outdated, err := cli.Put[T](c.Context(), env, wire.Change(now))
			if err != nil {
				return err
			}
			k.sayOutdated(env, a[0], outdated)
			if err := cli.Changed(env, k.Listing, now, "%s %s changed", k.Word, a[0]); err != nil {
				return err
			}
			if k.Updated != nil {
				k.Updated(c.Context(), found, now)
			}
			return nil
		},
	}
	k.Flags(c.Flags(), &said, true)
	f.Add(c.Flags(), k.Whose)
	f.AddChanges(c.Flags(), k.Whose)
	RevisionFlag(c.Flags(), &revision)
	return c
}

func (k Noun[T]) listCommand(env *cli.Env) *cobra.Command {
	return cli.ListCommand[*registryv1.ListRecordsResponse](
		env, k.Command, "List "+k.Word+"s.", k.Listing, wire.List(k.noun()))
}

func (k Noun[T]) showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Example: "  garrison " + k.Command + " show " + k.Example,
		Short:   "Show all fields of an " + k.Word + ".", Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := k.Find(c.Context(), a[0])
			if err != nil {
				return err
			}
			var more [][2]string
			if k.More != nil && env.Output.IsTable() {
				if more, err = k.More(c.Context(), found); err != nil {
					return err
				}
			}
			return output.ShowOne(env.Output, env.Output.View(), k.Listing, found, more...)
		},
	}
}

func (k Noun[T]) deleteCommand(env *cli.Env) *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "delete NAME",
		Example: "  garrison " + k.Command + " delete " + k.Example,
		Short:   "Delete an " + k.Word + " that has no " + k.Without + ".", Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := cli.Call[*registryv1.DeleteRecordResponse](c.Context(), env,
				wire.Delete(k.noun(), a[0], revision))
			return cli.Deleted(env, k.Word, a[0], err)
		},
	}
	RevisionFlag(c.Flags(), &revision)
	return c
}

// Edits are the changes of the flags on a command line, in their order.
type Edits[T any] []func(T)

// EditVar adds a flag that sets one field. Without the flag the field stays as it is.
func EditVar[T, V any](
	f *pflag.FlagSet,
	said *Edits[T],
	name, help string,
	read func(string) (V, error),
	set func(T, V),
) {
	f.Var(cli.FlagValue{Read: func(text string) error {
		v, err := read(text)
		*said = append(*said, func(t T) { set(t, v) })
		return err
	}}, name, help)
}

// maxOutdated is how many agents a change names.
const maxOutdated = 20

// sayOutdated prints which instances have another configuration than they would get now, and the commands that bring
// it.
func (k Noun[T]) sayOutdated(env *cli.Env, name string, outdated []*registryv1.Outdated) {
	for _, o := range outdated[:min(len(outdated), maxOutdated)] {
		if o.GetInstances() > 0 {
			env.Say("%s of %s would get another configuration: garrison configure %s --on %s",
				listing.Plural(int(o.GetInstances()), "instance"), o.GetAgent(), o.GetAgent(), k.On(name))
		}
		if o.GetLeftOut() > 0 {
			env.Say("%s of %s would be left out; the first: %s", listing.Plural(int(o.GetLeftOut()), "instance"),
				o.GetAgent(), fault.Line(o.GetFirst()))
		}
	}
	if more := len(outdated) - maxOutdated; more > 0 {
		env.Say("… and instances of %s", listing.Plural(more, "more agent"))
	}
}

// RevisionFlag adds the flag for the revision that a change is based on; 0 is the one that the command read.
func RevisionFlag(f *pflag.FlagSet, to *uint64) {
	cli.RevisionVar(f, to, "refuse unless the record has this `REVISION`, which show prints")
}

// basedOn makes a record the change of a revision. Without one it stays the change of the revision that was read.
func basedOn[T Record](t T, revision uint64) {
	m := t.ProtoReflect()
	if f := m.Descriptor().Fields().ByName("revision"); revision != 0 {
		m.Set(f, protoreflect.ValueOfUint64(revision))
	}
}

// LastChange returns the columns of a record's last change.
func LastChange[T interface {
	GetRevision() uint64
	GetChangedBy() string
	GetChangedAt() *timestamppb.Timestamp
}]() []listing.Column[T] {
	return []listing.Column[T]{
		listing.Wide("CHANGED", func(t T) string { return listing.Stamp(t.GetChangedAt()) }),
		listing.Wide("CHANGED-BY", func(t T) string { return t.GetChangedBy() }),
		listing.Wide("REVISION", func(t T) string { return strconv.FormatUint(t.GetRevision(), 10) }),
	}
}
